import { rm } from "node:fs/promises";
import type { AgentLaunch } from "../agents/agent.ts";
import type { Run } from "../jobs/run.ts";
import { SetupError } from "../place/setup.ts";
import { RepoError, type Worktree } from "../repos/repos.ts";
import { createFinder, filesWithSecret } from "../secrets/find.ts";
import { type JobSecrets, valuesInside } from "../secrets/secrets.ts";
import { some } from "./deliver.ts";
import { message } from "./ends.ts";
import type { Saving } from "./saving.ts";

type Job = {
  secrets: JobSecrets;
  place: { worktree: Pick<Worktree, "path"> };
  /** What its processes have besides the worktree. */
  within: Pick<AgentLaunch, "mounts"> | null;
  run: Run;
};

/** What becomes of the secrets that a job's commands got. `salvageTimeout`: seconds for the search after a job was stopped. */
export const createSecretCare = ({ repos, salvageTimeout }: Pick<Saving, "repos" | "salvageTimeout">) => {
  /** Removes what holds a value that agents may not have from all that an agent could read, and tells of it. */
  const removeLeft = async (
    { secrets: { setup, checks }, place, within, run }: Job,
    tell: (sentence: string) => void,
  ): Promise<void> => {
    const signal = run.signal.aborted ? AbortSignal.timeout(salvageTimeout * 1000) : run.signal;
    const values = valuesInside([...setup, ...checks]);
    const found: string[] = [];
    try {
      for (const root of [place.worktree.path, ...(within?.mounts ?? []).map(({ from }) => from)])
        for await (const file of filesWithSecret(root, [""], values, signal)) {
          found.push(file.toString());
          await rm(Buffer.concat([Buffer.from(`${root}/`), file]), { force: true, recursive: true });
        }
    } catch (cause) {
      signal.throwIfAborted();
      throw new SetupError(message(cause), { retryable: false, cause });
    }
    if (found.length > 0) tell(`A secret's value was in ${some(found, 20)}, which was removed`);
  };

  const warnOfLeft = (job: Job): Promise<void> => removeLeft(job, job.run.warn);

  return {
    /** What an earlier run left that was killed. */
    warnOfLeft,

    /** Neither the agent nor what is saved of the worktree has what the setup got. @throws SetupError that names the files */
    afterSetup: async (job: Job, work: () => Promise<void>): Promise<void> => {
      try {
        await work();
      } finally {
        await removeLeft(job, (sentence) => {
          const advice = "Have the commands of the setup leave no secret in the worktree.";
          throw new SetupError(`${sentence}.\nWhat to do: ${advice}`, { retryable: false });
        });
      }
    },

    /** Nor what the checks got. */
    afterChecks: async <Value>(job: Job, work: () => Promise<Value>): Promise<Value> => {
      try {
        return await work();
      } finally {
        await warnOfLeft(job);
      }
    },

    /** Before the commit goes out, with all that the remote lacks of it. @throws RepoError that names where a value is */
    requireNonePushed: async (
      { secrets, run: { signal } }: Pick<Job, "secrets" | "run">,
      worktree: Worktree,
      tip: string,
    ): Promise<void> => {
      const values = Object.values(secrets).flatMap((ofPhase) => ofPhase.map(({ value }) => value));
      if (values.length === 0) return;
      const has = createFinder(values);
      const read = (piece: string, where: string, isFirst: boolean): void => {
        if (!has(piece, isFirst)) return;
        const sentence = `Nothing was pushed, because a secret's value is in ${where}.\nWhat to do: Have the branch rewritten without it (svc continue), and set a new value: the old one is in the job's commits.`;
        throw new RepoError("push_failed", sentence, { retryable: false });
      };
      await repos.readNewObjects(worktree, { tip, maxBytes: mostSearched, read }, signal);
    },
  };
};

/** Most bytes of new objects that are searched before a push. */
const mostSearched = 2 * 2 ** 30;

export type SecretCare = ReturnType<typeof createSecretCare>;
