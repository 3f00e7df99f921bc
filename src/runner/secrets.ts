import { rm } from "node:fs/promises";
import type { AgentLaunch } from "../agents/agent.ts";
import type { Run } from "../jobs/run.ts";
import { ServiceError } from "../contract/errors.ts";
import { SetupError } from "../place/setup.ts";
import { RepoError, type Worktree } from "../repos/repos.ts";
import { filesWithSecret, findSecret } from "../secrets/find.ts";
import type { JobSecret, JobSecrets } from "../secrets/secrets.ts";

/** How agents get their secrets here. `inTheOpen`: names of those whose values they may have without a sandbox. */
export type AgentSecrets = { isSandboxed: boolean; inTheOpen: readonly string[] };

/**
 * | agents run        | the secret is named in SERVICE_SECRETS_UNSANDBOXED | the agent has                       |
 * |-------------------|----------------------------------------------------|-------------------------------------|
 * | in a sandbox      |                                                    | its placeholder                     |
 * | without           | yes                                                | its value                           |
 * |                   | no                                                 | nothing: the job is refused         |
 *
 * @throws ServiceError `sandbox_required`
 */
export const requireSandbox = (names: readonly string[], { isSandboxed, inTheOpen }: AgentSecrets): void => {
  const refused = isSandboxed ? [] : names.filter((name) => !inTheOpen.includes(name));
  if (refused.length === 0) return;
  throw new ServiceError(
    "sandbox_required",
    `Agents run without a sandbox here, and may not have the repository's secrets ${refused.join(", ")}: set up a sandbox (svc doctor), or name them in SERVICE_SECRETS_UNSANDBOXED`,
  );
};

/** The agent's launch with them. @throws ServiceError `sandbox_required` */
export const launchWith = <Launch extends Pick<AgentLaunch, "env">>(
  secrets: readonly JobSecret[],
  launch: Launch,
  how: AgentSecrets,
): Launch & Pick<AgentLaunch, "secrets"> => {
  const { isSandboxed } = how;
  const names = secrets.map(({ name }) => name);
  requireSandbox(names, how);
  const given = secrets.map(({ name, value, placeholder }) => [name, isSandboxed ? placeholder : value]);
  const env = { ...launch.env, ...(Object.fromEntries(given) as Record<string, string>) };
  return { ...launch, env, secrets: isSandboxed ? secrets : [] };
};

/** Most files that a failure names. */
const mostNamed = 20;

type Job = {
  secrets: JobSecrets;
  place: { worktree: Pick<Worktree, "path"> };
  /** What its processes have besides the worktree. */
  within: Pick<AgentLaunch, "mounts"> | null;
  run: Run;
};

/** What becomes of the secrets that a job's commands got. `salvageTimeout`: seconds for the search after a job was stopped. */
export const createSecretCare = ({ salvageTimeout }: { salvageTimeout: number }) => {
  /** Removes what holds a value that agents may not have from all that an agent could read, and tells of it. */
  const removeLeft = async (
    { secrets: { setup, checks }, place, within, run }: Job,
    tell: (sentence: string) => void,
  ): Promise<void> => {
    const signal = run.signal.aborted ? AbortSignal.timeout(salvageTimeout * 1000) : run.signal;
    const values = valuesOf([...setup, ...checks]);
    const found: string[] = [];
    try {
      for (const root of [place.worktree.path, ...(within?.mounts ?? []).map(({ from }) => from)])
        for await (const file of filesWithSecret(root, [""], values, signal)) {
          found.push(file.toString());
          await rm(Buffer.concat([Buffer.from(`${root}/`), file]), { force: true });
        }
    } catch (cause) {
      signal.throwIfAborted();
      throw new SetupError(cause instanceof Error ? cause.message : String(cause), {
        retryable: false,
        cause,
      });
    }
    const more = found.length > mostNamed ? ` and ${found.length - mostNamed} more` : "";
    const named = `${found.slice(0, mostNamed).join(", ")}${more}`;
    if (found.length > 0) tell(`A secret's value was in ${named}, which was removed`);
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

    /** Before what the paths have goes out. @throws RepoError that names the file */
    requireNonePushed: async (
      { secrets: { setup, checks, agent }, place, run }: Job,
      paths: readonly string[],
    ): Promise<void> => {
      const values = valuesOf([...setup, ...checks, ...agent]);
      const file = await findSecret(place.worktree.path, paths, values, run.signal);
      if (file === null) return;
      throw new RepoError(
        "push_failed",
        `Nothing was pushed, because a secret's value is in ${file}.\nWhat to do: Have it removed from there (svc continue), and set a new value: the old one is in the job's commits.`,
        { retryable: false },
      );
    },
  };
};

export type SecretCare = ReturnType<typeof createSecretCare>;

const valuesOf = (secrets: readonly JobSecret[]): string[] => secrets.map(({ value }) => value);
