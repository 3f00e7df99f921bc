import { mkdir, realpath } from "node:fs/promises";
import { join } from "node:path";
import type { AgentLaunch } from "../agents/agent.ts";
import type { JobSetup } from "../contract/setup.ts";
import type { Run } from "../jobs/run.ts";
import type { Repos, Worktree } from "../repos/repos.ts";
import { type EntryName, nameOf, placeOf } from "./entry.ts";
import type { Environments } from "./environments.ts";
import { clearPlaces, InTheWay, type Places } from "./trees.ts";
import type { Ended, Setup } from "./plan.ts";

type Dependencies = {
  repos: Pick<Repos, "fileAtBase" | "keepApart" | "pathsAtBase">;
  environments: Environments;
  /** HOME inside; null: it is not the job's own, and nothing of it is kept. */
  ownHome: string | null;
};

type Job = {
  run: Pick<Run, "warn" | "event" | "signal">;
  worktree: Worktree;
  /** No agent has worked in the worktree. */
  isUntouched: boolean;
  /** The hosts and paths that its commands may use. */
  reach: unknown;
  /** Branch of its base; empty for the remote's default branch. */
  branch: string;
  /** Rejects when the directory has what no other job may get. */
  search: (directory: string) => Promise<void>;
};

/** What a job is given or keeps: the paths of its setup, by the name of the entry. */
type Wanted = { repoKey: string; name: EntryName; paths: readonly string[] };

/** Largest lock file, bytes. */
const largestLock = 32 * 1024 * 1024;

/** A wait is told after so long, ms. */
const patience = 300;

/** Gives a worktree what earlier setups of the same repository have made, and keeps what its own makes. */
export const createWarm = ({ repos, environments, ownHome }: Dependencies) => {
  const placesOf = ({ path, ownDir }: Worktree): Places => ({ worktree: path, home: join(ownDir, "home") });

  const keptOf = ({ cache }: Setup): { paths: string[]; left: string[] } => {
    const isKept = (path: string): boolean => ownHome !== null || placeOf(path).in === "worktree";
    const paths = cache?.paths ?? [];
    return { paths: paths.filter(isKept), left: paths.filter((path) => !isKept(path)) };
  };

  const mountsOf = async (setup: Setup, worktree: Worktree): Promise<NonNullable<AgentLaunch["mounts"]>> => {
    const places = ownHome === null ? [] : (setup.cache?.paths ?? []).map(placeOf);
    const own = places.filter((place) => place.in === "home");
    if (own.length === 0) return [];
    await mkdir(placesOf(worktree).home, { recursive: true, mode: 0o700 });
    // The sandbox takes a mount only where no link is.
    const home = await realpath(placesOf(worktree).home);
    const mounts = own.map(({ path }) => ({ from: join(home, path), to: join(ownHome ?? "", path) }));
    await Promise.all(mounts.map(({ from }) => mkdir(from, { recursive: true, mode: 0o700 })));
    return mounts;
  };

  const locksOf = ({ cache }: Setup, { worktree, run: { signal } }: Job): Promise<(string | null)[]> => {
    const read = (path: string) => repos.fileAtBase(worktree, { path, maxBytes: largestLock }, signal);
    return Promise.all((cache?.key ?? []).map(read));
  };

  /** Its turn among jobs that want the same. */
  const turnOf = async (
    repoKey: string,
    { name, seconds, run }: { name: EntryName; seconds: number; run: Job["run"] },
  ) => {
    const began = performance.now();
    const told = setTimeout(() => {
      run.event({ type: "setup", text: "Waits for the same setup of another job\n" });
    }, patience);
    const taking = environments.turn(repoKey, name, seconds, run.signal);
    const turn = await taking.finally(() => clearTimeout(told));
    const waited = performance.now() - began;
    return { turn, waited_seconds: waited < patience ? 0 : Math.round(waited / 100) / 10 };
  };

  /** Makes place for what is given or made. @throws InTheWay */
  const clear = async (paths: readonly string[], { worktree, run }: Job): Promise<void> => {
    const inWorktree = paths.filter((path) => placeOf(path).in === "worktree");
    const [committed] = await repos.pathsAtBase(worktree, inWorktree, run.signal);
    if (committed !== undefined) throw new InTheWay(inCommit(committed));
    await clearPlaces(paths, placesOf(worktree));
  };

  const give = async ({ repoKey, name, paths }: Wanted, { worktree, run }: Job) => {
    const to = placesOf(worktree);
    try {
      return await environments.give(repoKey, name, { to, signal: run.signal });
    } catch (error) {
      run.signal.throwIfAborted();
      run.warn(`No warm environment could be given: ${messageOf(error)}`);
      await clearPlaces(paths, to);
      return "cold";
    }
  };

  /** A failure to keep it fails no job. @throws InTheWay when what is there must not be used either */
  const keep = async ({ repoKey, name, paths }: Wanted, { worktree, run, search }: Job): Promise<void> => {
    const kept = { from: placesOf(worktree), search, signal: run.signal };
    try {
      const facts = { ...name, repoUrl: worktree.repoUrl, paths };
      (await environments.keep(repoKey, facts, kept)).forEach(run.warn);
    } catch (error) {
      run.signal.throwIfAborted();
      if (error instanceof InTheWay) throw error;
      run.warn(`What the setup made could not be kept for later jobs: ${messageOf(error)}`);
    }
  };

  return {
    /** The mounts in the HOME of all its processes. */
    mounts: mountsOf,

    /**
     * Makes an environment by `commands`, unless there is one that fits. `programs`: what says which programs are there.
     * @throws InTheWay when something is in the place of a path
     */
    make: async (
      setup: Setup,
      job: Job,
      { programs, seconds, commands }: { programs: string; seconds: number; commands: () => Promise<Ended> },
    ): Promise<Ended & Pick<JobSetup, "cache" | "waited_seconds">> => {
      const { worktree, run, isUntouched } = job;
      const { paths, left } = keptOf(setup);
      if (left.length > 0) run.warn(notOwn(left));
      const inWorktree = paths.filter((path) => placeOf(path).in === "worktree");
      if (setup.cache !== null) await repos.keepApart(worktree, inWorktree);
      const { repoKey, repoUrl } = worktree;
      if (!environments.isOn || repoKey === null || paths.length === 0 || !isUntouched)
        return { ...(await commands()), cache: "none", waited_seconds: 0 };
      await clear(paths, job);
      const locks = await locksOf(setup, job);
      const name = nameOf(setup, { repoUrl, programs, locks, reach: job.reach, branch: job.branch });
      const isThere = await environments.isWhole(repoKey, name);
      const { turn, waited_seconds } = isThere
        ? { turn: null, waited_seconds: 0 }
        : await turnOf(repoKey, { name, seconds, run });
      try {
        // A job that only gets a copy holds up nobody.
        if (await environments.isWhole(repoKey, name)) await turn?.release();
        const cache = await give({ repoKey, name, paths }, job);
        await mountsOf(setup, worktree);
        if (cache === "warm") return { exit_code: null, log: "", failure: null, cache, waited_seconds };
        const ended = await commands();
        if (ended.failure === null && turn !== null) await keep({ repoKey, name, paths }, job);
        return { ...ended, cache, waited_seconds };
      } finally {
        await turn?.release();
      }
    },
  };
};

export type Warm = ReturnType<typeof createWarm>;

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));

const inCommit = (path: string): string =>
  `${path} of cache.paths is in the commit: name only what the setup makes`;

const notOwn = (paths: readonly string[]): string =>
  `${paths.join(", ")} of cache.paths cannot be kept: only in bubblewrap a job has a HOME of its own`;
