import type { AgentLaunch } from "../agents/agent.ts";
import type { CommandEnd, RunCommand } from "../agents/command.ts";
import type { JobSetup } from "../contract/setup.ts";
import type { Run } from "../jobs/run.ts";
import { parseHosts, presetHosts, type AllowedHost } from "../lib/allowed-hosts.ts";
import type { ResolvedProfile } from "../profiles/profile.ts";
import { parseSetupFile, setupFile, type SetupKeys } from "../profiles/setup.ts";
import { borrowedBy, type Repos, type Worktree } from "../repos/repos.ts";
import { findSecret } from "../secrets/find.ts";
import { hiddenOf, type JobSecret, valuesInside, variablesOf } from "../secrets/secrets.ts";
import { servicesScript } from "./services.ts";
import {
  type Ended,
  type Failure,
  missingVersions,
  reachOf,
  reachWithSecrets,
  scriptOf,
  type Setup,
  setupOf,
  versionScript,
} from "./plan.ts";
import { InTheWay } from "./trees.ts";
import type { Warm } from "./warm.ts";

/** Why the agent is not started. */
export class SetupError extends Error {
  override name = "SetupError";
  readonly retryable: boolean;
  /** There is no room left on the disk. */
  readonly isFull: boolean;

  constructor(
    message: string,
    { retryable, isFull = false, ...options }: { retryable: boolean; isFull?: boolean; cause?: unknown },
  ) {
    super(message, options);
    this.retryable = retryable;
    this.isFull = isFull;
  }
}

type Dependencies = {
  repos: Repos;
  runCommand: RunCommand;
  warm: Warm;
  /** Rejects with a sentence when the disk is full. */
  requireRoom: () => Promise<void>;
  isSandboxed: boolean;
  settings: { setupHosts: readonly string[]; setupUnsandboxed: boolean };
};

type Job = {
  jobId: string;
  run: Run;
  worktree: Worktree;
  launch: Pick<AgentLaunch, "allowed" | "mounts" | "ports">;
  /** Plain ones are for `run` alone. */
  secrets: readonly JobSecret[];
  /** Why it does not get others, a sentence each. */
  lacks: readonly string[];
  /** Branch of the base; empty for the remote's default branch. */
  branch: string;
  /** No agent has worked in the worktree: all that is not of its commit comes from a setup that was interrupted. */
  isUntouched: boolean;
};

/** Longest time in which a worktree gets its files back after its job was stopped, ms. */
export const restoreTimeout = 60_000;

/** Characters of the output's end that are part of the error. */
const shownTail = 4000;

/** Most hosts that a warning names. */
const mostNames = 20;

const whatToDo = `What to do: Correct ${setupFile} of the base, or setup of the profile; svc logs has all of the output.`;

/** Makes a job's worktree ready before its agent starts: what is to be done, and the doing of it. */
export const createSetup = (deps: Dependencies) => {
  const { repos, runCommand, settings } = deps;

  /**
   * By the profile and the file of the commit that the work began with; null: nothing is to be done. `warn` is told when the
   * file is left out.
   * @throws SetupError when the file is broken
   */
  const of = async (
    { setupFor, readOnly }: Pick<ResolvedProfile, "setupFor" | "readOnly">,
    worktree: Worktree,
    { warn, signal }: Pick<Run, "warn" | "signal">,
  ): Promise<Setup | null> => {
    if (readOnly) return null;
    const source = await repos.fileAtBase(worktree, { path: setupFile, maxBytes: 65_536 }, signal);
    const isTrusted = deps.isSandboxed || settings.setupUnsandboxed;
    if (source !== null && !isTrusted) warn(leftOut);
    const file = source === null || !isTrusted ? null : parsed(source);
    const setup = setupOf(file, setupFor(worktree.repoUrl));
    const withheld = Object.keys(setup?.withheld ?? {});
    if (withheld.length > 0) warn(notForAgent(withheld));
    return setup;
  };

  /** @throws SetupError when the agent is not to be started */
  const run = async (setup: Setup, job: Job): Promise<void> => {
    const began = performance.now();
    const lacks = setup.run.length === 0 ? [] : job.lacks;
    lacks.forEach(job.run.warn);
    const { allowed, refused } = reachOf(setup, job.launch.allowed, settings.setupHosts);
    if (refused.length > 0) job.run.warn(notPermitted(refused));
    const work = () => perform(setup, { ...job, launch: { ...job.launch, allowed } });
    const ended = isEmpty(setup) ? await work() : await restoring(job, work);
    const seconds = Math.round((performance.now() - began) / 100) / 10;
    const { exit_code, failure, log, cache, waited_seconds } = ended;
    job.run.note({ setup: { cache, seconds, exit_code, waited_seconds } }, { lazy: false });
    job.run.stage("setup", failure?.sentence);
    if (failure === null) return;
    const { retryable } = failure;
    const sentence = [...lacks, failure.sentence].join(". ");
    if (setup.goesOnFailed && !failure.isFinal)
      return job.run.warn(`${sentence}; the agent was started all the same`);
    const text = `${sentence}.\n${whatToDo}\n${log.slice(-shownTail)}`.trimEnd();
    const isFull = noRoom.test(text) || (await roomFailure()) !== null;
    throw new SetupError(text, { retryable, isFull });
  };

  const perform = async (setup: Setup, job: Job): Promise<Made> => {
    const denied = new Set<string>();
    const onDenied = (name: string) => void (denied.size < mostNames && denied.add(name));
    try {
      return await runAll(setup, job, onDenied);
    } finally {
      if (denied.size > 0) job.run.warn(wasRefused([...denied]));
    }
  };

  const runAll = async (setup: Setup, job: Job, onDenied: (name: string) => void): Promise<Made> => {
    const { env, timeout } = setup;
    const { jobId, run, worktree, isUntouched, secrets, branch } = job;
    const { allowed, mounts, ports } = job.launch;
    const at = { cwd: worktree.path, borrows: borrowedBy(worktree), allowed, mounts, ports };
    const given = { jobId, ...at, env, signal: run.signal, onDenied };
    let left = timeout;
    const hidden = hiddenOf(secrets);
    const readOnly = parseHosts(hidden.flatMap(({ hosts }) => hosts));
    const everywhere = variablesOf(secrets.filter(({ plain }) => !plain));
    const common = { secrets: hidden, readOnly, env: { ...env, ...everywhere } };
    const commands = async (script: string, more = {}): Promise<Ended> => {
      const onOutput = (text: string): void => run.event({ type: "setup", text });
      const timeoutSeconds = Math.max(1, left);
      const ended = await runCommand({ ...given, ...common, ...more, run: script, timeoutSeconds, onOutput });
      left -= ended.durationMs / 1000;
      const { exitCode: exit_code, log } = ended;
      return { exit_code, log, failure: failureOf(ended, timeout) ?? (await roomFailure()) };
    };
    try {
      const programs = await programsOf(setup, given);
      const missing = missingVersions(setup.versions, programs);
      if (missing.length > 0) return { ...nothing, failure: lacking(missing) };
      const first = async () =>
        setup.run.length === 0 ? nothing : commands(scriptOf(setup.run), withPlain(setup, job, readOnly));
      const values = valuesInside(secrets, worktree.repoUrl);
      const search = async (copy: string): Promise<void> => {
        const file = await findSecret(copy, [""], values, run.signal);
        if (file !== null) throw new InTheWay(`A secret's value is in ${file} of what the setup has made`);
      };
      const reach = [allowed, deps.isSandboxed];
      const asked = { run, worktree, isUntouched, search, reach, branch };
      const made = await deps.warm.make(setup, asked, { programs, seconds: timeout, commands: first });
      const rest = `${servicesScript(setup.services)}${scriptOf(setup.each)}`;
      if (made.failure !== null) return made;
      return { ...made, ...(rest === "" ? { failure: await roomFailure() } : await commands(rest)) };
    } catch (error) {
      if (run.signal.aborted) throw error;
      if (error instanceof InTheWay) return { ...nothing, failure: { ...inTheWay, sentence: error.message } };
      const sentence = `The setup could not be run: ${messageOf(error)}`;
      return { ...nothing, failure: { ...mayPass, sentence } };
    }
  };

  /** What commands with plain secrets get in place of the usual; nothing where there is none. */
  const withPlain = (setup: Setup, { launch, secrets, run }: Job, readOnly: readonly AllowedHost[]) => {
    if (secrets.every(({ plain }) => !plain)) return {};
    const secretHosts = secrets.flatMap(({ hosts }) => hosts);
    const asked = { ...setup, permitted: settings.setupHosts };
    const { allowed, refused } = reachWithSecrets(asked, launch.allowed, secretHosts);
    if (refused.length > 0) run.warn(notWithSecrets(refused));
    const env = { ...setup.env, ...variablesOf(secrets) };
    return { allowed, env, readOnly: [...readOnly, ...presetHosts()] };
  };

  /** What says which programs are there: those that it needs, and those that the kept environment depends on. */
  const programsOf = async (
    { versions, cache, timeout }: Setup,
    given: Omit<Parameters<RunCommand>[0], "run" | "timeoutSeconds" | "onOutput">,
  ): Promise<string> => {
    const wanted = { ...(cache !== null && { node: "", python3: "" }), ...versions };
    if (Object.keys(wanted).length === 0) return "";
    const image = cache === null ? "" : "uname -m; cat /etc/os-release; ";
    const asked = { ...given, run: `${versionScript(wanted)}\n${image}`, timeoutSeconds: timeout };
    return (await runCommand({ ...asked, onOutput: () => undefined })).log;
  };

  const roomFailure = async (): Promise<Failure | null> =>
    await deps.requireRoom().then(
      () => null,
      (error: unknown) => ({ sentence: messageOf(error), retryable: true, isFinal: true }),
    );

  /** Gives the worktree back what the setup changed of its commit, unless work of an earlier agent is uncommitted there. */
  const restoring = async ({ run: job, ...of }: Job, work: () => Promise<Made>): Promise<Made> => {
    const { worktree } = of;
    const { dirty, head: commit } = await repos.inspect(worktree, job.signal);
    if (commit === null || (dirty && !of.isUntouched)) return await work();
    let failed: Failure | null = null;
    try {
      const made = await work();
      failed = made.failure;
      return made;
    } finally {
      const signal = job.signal.aborted ? AbortSignal.timeout(restoreTimeout) : job.signal;
      const restored = repos.checkOutCommit(worktree, { commit, tip: commit }, signal);
      const changed = await restored.catch((error: unknown) => {
        // On a full disk nothing can be put back: the setup's own failure says more.
        if (failed === null) throw error;
        return [];
      });
      if (changed.length > 0) job.warn(putBack(changed));
    }
  };

  /** The services and mounts of the setup, beside the job's agent and checks. */
  const within = async (setup: Setup, worktree: Worktree) => ({
    before: servicesScript(setup.services),
    mounts: await deps.warm.mounts(setup, worktree),
  });

  return { of, run, within };
};

type Made = Ended & Pick<JobSetup, "cache" | "waited_seconds">;

const nothing: Made = { exit_code: null, log: "", failure: null, cache: "none", waited_seconds: 0 };

const inTheWay = { retryable: false, isFinal: true };

const isEmpty = ({ run, services, each }: Setup): boolean => run.length + services.length + each.length === 0;

export type SetUp = ReturnType<typeof createSetup>;

/** @throws SetupError */
const parsed = (source: string): SetupKeys => {
  try {
    return parseSetupFile(source);
  } catch (cause) {
    throw new SetupError(messageOf(cause), { retryable: false, cause });
  }
};

const noRoom = /No space left on device|Out of diskspace|ENOSPC(?!: Sys)|Disk quota exceeded|EDQUOT/i;

const mayPass = { retryable: true, isFinal: false };

/**
 * | the commands                      | `on_failure: continue` helps | may pass another time |
 * |-----------------------------------|------------------------------|-----------------------|
 * | ended well                        |                              |                       |
 * | found no room on the disk         | no                           | yes                   |
 * | were ended at their time limit    | yes                          | yes                   |
 * | ended with an exit code, a signal | yes                          | yes                   |
 */
const failureOf = ({ exitCode, timedOut, log }: CommandEnd, timeout: number): Failure | null => {
  if (exitCode === 0) return null;
  if (noRoom.test(log))
    return { sentence: "The setup failed: there is no room left", retryable: true, isFinal: true };
  if (timedOut) return { ...mayPass, sentence: `The setup was ended at its time limit, ${timeout} s` };
  const how = exitCode === null ? "a signal ended it" : `exit code ${exitCode}`;
  return { ...mayPass, sentence: `The setup failed: ${how}` };
};

const lacking = (missing: readonly string[]): Failure => {
  const sentence = `The setup needs what is not there: ${missing.join(", ")}`;
  return { sentence, retryable: false, isFinal: false };
};

const leftOut = `${setupFile} of the repository was left out, because agents run without a sandbox; SERVICE_SETUP_UNSANDBOXED=true runs it`;

const notPermitted = (names: readonly string[]): string =>
  `${setupFile} names hosts that a repository may not: ${names.slice(0, mostNames).join(", ")}; name them in sandbox.hosts or setup.hosts of the profile, or in SERVICE_SETUP_HOSTS`;

const notWithSecrets = (names: readonly string[]): string =>
  `run of the setup gets plain secrets, so it does not reach ${names.slice(0, mostNames).join(", ")}: name them with a secret (svc secrets set … --host) or in SERVICE_SETUP_HOSTS, or run in each what needs them`;

const notForAgent = (names: readonly string[]): string =>
  `The agent's CLI does not get ${names.slice(0, mostNames).join(", ")} of env in ${setupFile}, because it changes which code programs load: commands of the setup, services and checks have it`;

const wasRefused = (names: readonly string[]): string =>
  `The setup was refused ${names.join(", ")}: name them in its hosts`;

const putBack = (paths: readonly string[]): string =>
  `The setup changed files that git does not ignore, which were put back: ${paths.slice(0, mostNames).join(", ")}`;

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
