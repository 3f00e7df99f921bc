import { lstat, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { AgentLaunch } from "../agents/agent.ts";
import type { Run } from "../jobs/run.ts";
import { brokenForms, wholeForms } from "../lib/redact.ts";
import { SetupError } from "../place/setup.ts";
import { RepoError, type Worktree } from "../repos/repos.ts";
import { createFinder, filesWithSecret, findSecret, type Hit } from "../secrets/find.ts";
import { type JobSecret, type JobSecrets, searchedValues, valuesInside } from "../secrets/secrets.ts";
import { some } from "../lib/some.ts";
import { message } from "./ends.ts";
import type { Place } from "./place.ts";
import type { Saving } from "./saving.ts";

type Job = {
  secrets: JobSecrets;
  place: Pick<Place, "worktree" | "others">;
  /** What its processes have besides the worktree. */
  within: Pick<AgentLaunch, "mounts"> | null;
  run: Run;
};

/** `since`: when the first commands began whose traces were not looked for, ms. */
type Cleaning = { worktree: Worktree; secrets: readonly JobSecret[]; since: number; signal: AbortSignal };

/**
 * What becomes of the secrets that a job's commands got. `salvageTimeout`: seconds for the search after a job was stopped.
 *
 * | a value stands                               | then                                                     |
 * |----------------------------------------------|----------------------------------------------------------|
 * | in a base, or in the branch at the remote    | readers know it: a warning, no search in that repository |
 * | below `.git` of the worktree                 | nothing                                                  |
 * | in what setup or checks left                 | it goes, or a tracked file is restored; the job fails    |
 * | in what a killed run of them left            | the same with a warning, before the agent reads it       |
 * | in files that are older than these           | nothing: checkout or agent made them                     |
 * | in what is to be pushed                      | nothing is pushed, the job fails                         |
 */
export const createSecretCare = ({ repos, salvageTimeout }: Pick<Saving, "repos" | "salvageTimeout">) => {
  /** The secrets, each with the repositories of the job whose readers know it. */
  const markPublic = async (
    secrets: JobSecrets,
    { own, others }: Place,
    { warn, signal }: { warn: (text: string) => void; signal: AbortSignal },
  ): Promise<JobSecrets> => {
    const all = Object.values(secrets).flat();
    const known = new Map<JobSecret, string[]>();
    for (const worktree of [own, ...others.map((other) => other.worktree)]) {
      const pathOf = (some: readonly JobSecret[]) => repos.pathWith(worktree, some.flatMap(textsOf), signal);
      if ((await pathOf(all)) === null) continue;
      for (const secret of all) {
        const path = await pathOf([secret]);
        if (path === null) continue;
        warn(publicText(secret, path, worktree));
        known.set(secret, [...(known.get(secret) ?? []), worktree.repoUrl]);
      }
    }
    const marked = (some: readonly JobSecret[]) =>
      some.map((secret) => ({ ...secret, publicIn: known.get(secret) ?? [] }));
    return { setup: marked(secrets.setup), agent: marked(secrets.agent), checks: marked(secrets.checks) };
  };

  /** Removes or restores what was made below `root` since then and holds a value. Resolves to the files, each with its secret. */
  const clean = async (root: string, { worktree, secrets, since, signal }: Cleaning): Promise<string[]> => {
    const values = valuesInside(secrets, worktree.repoUrl);
    if (values.length === 0) return [];
    const isTree = root === worktree.path;
    const names = (await readdir(root, { encoding: "buffer" })).filter(
      (name) => !isTree || name.toString() !== ".git",
    );
    const placeOf = (file: Buffer) => Buffer.concat([Buffer.from(`${root}/`), file]);
    const hits: Hit[] = [];
    for await (const hit of filesWithSecret(root, names, values, signal))
      if (((await lstat(placeOf(hit.file)).catch(() => null))?.ctimeMs ?? 0) >= since) hits.push(hit);
    const files = isTree ? hits.map(({ file }) => file.toString("latin1")) : [];
    const restored = files.length > 0 ? await repos.restoreFiles(worktree, files, signal) : [];
    const found: string[] = [];
    for (const { file, value } of hits) {
      if (!restored.includes(file.toString("latin1")))
        await rm(placeOf(file), { force: true, recursive: true });
      // It is in the commit, which is searched before a push.
      else if ((await findSecret(root, [file], [value], signal)) !== null) continue;
      found.push(`${file.toString()} (${nameOf(secrets, value)})`);
    }
    return found;
  };

  /** Cleans all that an agent could read of values that commands left which it may not have, and tells of it. */
  const removeLeft = async (
    { secrets: { setup, checks }, place: { worktree: main, others }, within, run }: Job,
    tell: (sentence: string) => void,
  ): Promise<void> => {
    const began = await lstat(markOf(main)).catch(() => null);
    if (began === null) return;
    const signal = run.signal.aborted ? AbortSignal.timeout(salvageTimeout * 1000) : run.signal;
    const asked = { secrets: [...setup, ...checks], since: began.ctimeMs, signal };
    const found: string[] = [];
    try {
      for (const root of [main.path, ...(within?.mounts ?? []).map(({ from }) => from)])
        found.push(...(await clean(root, { ...asked, worktree: main })));
      for (const { name, worktree } of others)
        found.push(...(await clean(worktree.path, { ...asked, worktree })).map((file) => `${name}/${file}`));
      await rm(markOf(main), { force: true });
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
    // One that is there is of commands that were killed.
    await writeFile(markOf(job.place.worktree), "", { flag: "a" });
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
      const values = searchedValues(all, worktree.repoUrl);
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

/** There while commands run, and until what they left was looked for. */
const markOf = ({ ownDir }: Worktree): string => join(ownDir, "commands-ran");

const publicText = ({ name }: JobSecret, path: string, { repoUrl }: Worktree): string =>
  `The value of the secret ${name} stands in ${path} of the base: whoever reads ${repoUrl} knows it, and it is not searched for there. Set another value (svc secrets set)`;

/** The forms of its value, each as the lines of a file that has all of it. */
const textsOf = ({ value }: JobSecret): string[][] => {
  const lines = wholeForms(value).map((form) => form.split(/\r?\n/).filter((line) => line.trim() !== ""));
  // Short ones of several may stand anywhere.
  const telling = lines.filter((all) => all.length === 1 || all.some(({ length }) => length >= 12));
  return [...telling, ...brokenForms(value)];
};

/** Most bytes of new objects that are searched before a push. */
const mostSearched = 2 * 2 ** 30;

export type SecretCare = ReturnType<typeof createSecretCare>;
