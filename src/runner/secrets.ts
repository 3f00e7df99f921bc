import { readdir, rm } from "node:fs/promises";
import type { AgentLaunch } from "../agents/agent.ts";
import { secretPhases } from "../contract/secret.ts";
import type { Run } from "../jobs/run.ts";
import { formsOf } from "../lib/redact.ts";
import { SetupError } from "../place/setup.ts";
import { RepoError, type Worktree } from "../repos/repos.ts";
import { createFinder, filesWithSecret } from "../secrets/find.ts";
import { type JobSecret, type JobSecrets, searchedValues, valuesInside } from "../secrets/secrets.ts";
import { some } from "../lib/some.ts";
import { message } from "./ends.ts";
import type { Place } from "./place.ts";
import type { Saving } from "./saving.ts";

type Job = {
  secrets: JobSecrets;
  place: Pick<Place, "worktree">;
  /** What its processes have besides the worktree. */
  within: Pick<AgentLaunch, "mounts"> | null;
  run: Run;
};

/**
 * What becomes of the secrets that a job's commands got. `salvageTimeout`: seconds for the search after a job was stopped.
 *
 * | a value stands                              | then                                                    |
 * |---------------------------------------------|---------------------------------------------------------|
 * | in a commit with which the work began       | its readers know it: a warning, no search in this job   |
 * | below `.git` of the worktree                | nothing                                                 |
 * | in what setup or checks left                | it goes, or a tracked file is restored; the job fails   |
 * | in what a killed run of them left           | the same with a warning, before the agent reads it      |
 * | in what is to be pushed                     | nothing is pushed, the job fails                        |
 */
export const createSecretCare = ({ repos, salvageTimeout }: Pick<Saving, "repos" | "salvageTimeout">) => {
  /** The secrets, of which those are marked that stand in a commit with which the work began, in any repository. */
  const markPublic = async (
    secrets: JobSecrets,
    { worktree: main, firstHead, others }: Place,
    { warn, signal }: { warn: (text: string) => void; signal: AbortSignal },
  ): Promise<JobSecrets> => {
    const pathOf = async (some: readonly JobSecret[]): Promise<string | null> => {
      const texts = some.flatMap(linesOf);
      for (const { worktree, firstHead: head } of [{ worktree: main, firstHead }, ...others]) {
        const commits = [...new Set([worktree.baseSha, head])].filter((commit) => commit !== null);
        const path = await repos.pathWith(worktree, { commits, texts }, signal);
        if (path !== null) return path;
      }
      return null;
    };
    if ((await pathOf(Object.values(secrets).flat())) === null) return secrets;
    const all: JobSecrets = { setup: [], agent: [], checks: [] };
    for (const phase of secretPhases)
      for (const secret of secrets[phase]) {
        const path = await pathOf([secret]);
        if (path !== null) warn(publicText(secret, path));
        all[phase].push({ ...secret, isPublic: path !== null });
      }
    return all;
  };

  /** Removes or restores what holds a value that agents may not have of all that an agent could read, and tells of it. */
  const removeLeft = async (
    { secrets: { setup, checks }, place: { worktree }, within, run }: Job,
    tell: (sentence: string) => void,
  ): Promise<void> => {
    const signal = run.signal.aborted ? AbortSignal.timeout(salvageTimeout * 1000) : run.signal;
    const secrets = [...setup, ...checks];
    const values = valuesInside(secrets);
    if (values.length === 0) return;
    const found: string[] = [];
    try {
      for (const root of [worktree.path, ...(within?.mounts ?? []).map(({ from }) => from)]) {
        const names = await readdir(root, { encoding: "buffer" });
        const paths = names.filter((name) => root !== worktree.path || name.toString() !== ".git");
        const hits = await Array.fromAsync(filesWithSecret(root, paths, values, signal));
        found.push(...hits.map(({ file, value }) => `${file.toString()} (${nameOf(secrets, value)})`));
        const files = root === worktree.path ? hits.map(({ file }) => file.toString("latin1")) : [];
        const restored = files.length > 0 ? await repos.restoreFiles(worktree, files, signal) : [];
        for (const { file } of hits)
          if (!restored.includes(file.toString("latin1")))
            await rm(Buffer.concat([Buffer.from(`${root}/`), file]), { force: true, recursive: true });
      }
    } catch (cause) {
      signal.throwIfAborted();
      throw new SetupError(message(cause), { retryable: false, cause });
    }
    if (found.length > 0) tell(`A secret's value was in ${some(found, 20)}, which was removed or restored`);
  };

  /** Runs commands, and fails when they left a value. @throws what `failure` makes of a sentence that names files and secrets */
  const after = async <Value>(
    job: Job,
    work: () => Promise<Value>,
    failure: (sentence: string) => Error,
  ): Promise<Value> => {
    try {
      return await work();
    } finally {
      await removeLeft(job, (sentence) => {
        throw failure(sentence);
      });
    }
  };

  return {
    markPublic,

    /** What an earlier run left that was killed. */
    warnOfLeft: (job: Job): Promise<void> => removeLeft(job, job.run.warn),

    /** Neither the agent nor what is saved of the worktree has what the setup got. @throws SetupError */
    afterSetup: (job: Job, work: () => Promise<void>): Promise<void> =>
      after(job, work, (sentence) => {
        const advice = "Have the commands of the setup leave no secret in the worktree.";
        return new SetupError(`${sentence}.\nWhat to do: ${advice}`, { retryable: false });
      }),

    /** Nor what the checks got. @throws RepoError */
    afterChecks: <Value>(job: Job, work: () => Promise<Value>): Promise<Value> =>
      after(job, work, (sentence) => {
        const advice = "Have the checks leave no secret in the worktree, then go on (svc continue).";
        const text = `Nothing was pushed. ${sentence}.\nWhat to do: ${advice}`;
        return new RepoError("push_failed", text, { retryable: false });
      }),

    /** Before the commit goes out, with all that the remote lacks of it. @throws RepoError that names where a value is */
    requireNonePushed: async (
      { secrets, run: { signal } }: Pick<Job, "secrets" | "run">,
      worktree: Worktree,
      tip: string,
    ): Promise<void> => {
      const all = Object.values(secrets).flat();
      const values = searchedValues(all);
      if (values.length === 0) return;
      const find = createFinder(values);
      const read = (piece: string, where: string, isFirst: boolean): void => {
        const value = find(piece, isFirst);
        if (value === null) return;
        const sentence = `Nothing was pushed, because a secret's value (${nameOf(all, value)}) is in ${where}.\nWhat to do: Have the branch rewritten without it (svc continue), and set a new value: the old one is in the job's commits.`;
        throw new RepoError("push_failed", sentence, { retryable: false });
      };
      await repos.readNewObjects(worktree, { tip, maxBytes: mostSearched, read }, signal);
    },
  };
};

const nameOf = (secrets: readonly JobSecret[], value: string): string =>
  secrets.find((secret) => secret.value === value)?.name ?? "";

const publicText = ({ name }: JobSecret, path: string): string =>
  `The value of the secret ${name} stands in ${path} of the base: whoever reads the repository knows it, and it is not searched for in this job. Set another value (svc secrets set)`;

/** The forms of its value as lines; of a value of several lines the longest one, which is as telling. */
const linesOf = ({ value }: JobSecret): string[] =>
  formsOf(value).flatMap((form) => {
    const [longest = ""] = form.split("\n").toSorted((one, other) => other.length - one.length);
    return longest === form || longest.length >= 12 ? [longest] : [];
  });

/** Most bytes of new objects that are searched before a push. */
const mostSearched = 2 * 2 ** 30;

export type SecretCare = ReturnType<typeof createSecretCare>;
