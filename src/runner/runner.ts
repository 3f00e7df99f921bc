import type { Agent, TurnOutcome } from "../agents/agent.ts";
import type { Execute, Interruption, Outcome, Run, SettleLost } from "../jobs/execute.ts";
import { mayRunAgain, wasPushed } from "../jobs/settle.ts";
import type { Log } from "../lib/log.ts";
import { jobMarker } from "../lib/process/marker.ts";
import { killOrphans } from "../lib/process/orphans.ts";
import { leftWarnings } from "../lib/process/sweep.ts";
import type { Redact } from "../lib/redact.ts";
import { ProfileError, type Profiles } from "../profiles/profile.ts";
import { RepoError, type Repos, type Snapshot, type Worktree } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";
import { checkout } from "./checkout.ts";
import { deliver } from "./deliver.ts";
import { cacheDirectoryOf, NoLongerOurs, runJobAgent, UnknownSession } from "./turn.ts";

type Dependencies = {
  profiles: Profiles;
  repos: Repos;
  agent: Agent;
  newId: () => string;
  /** For what leaves the service with a pull request. */
  redact: Redact;
  log: Log;
  /** What marks the processes that this instance starts. */
  instance: string;
  /** Seconds between SIGTERM and SIGKILL for what a dead instance left behind; short, since nobody reads its answer. */
  orphanGrace: number;
  /** Seconds that saving the work of an interrupted job may take. */
  salvageTimeout: number;
};

/** What running one job means: profile → checkout → agent → outcome → commit, push, pull request; or salvage. */
export const createRunner = (deps: Dependencies) => {
  const { profiles, repos, log } = deps;

  const execute: Execute = async (record, run) => {
    const progress: Progress = { worktree: null, before: null, readOnly: false, agent: null };
    try {
      return await attempt(record, run, progress);
    } catch (error) {
      const failure = run.signal.aborted
        ? interrupted(run.signal, record, progress)
        : failureOf(error, record);
      if (failure.kind !== "failed" || failure.patch.failure_reason === "internal") {
        log.warn({ err: error, job: record.id }, "the run of the job ended early");
      }
      return await keepWork(record, run, progress, failure);
    }
  };

  const attempt = async (record: JobRecord, run: Run, progress: Progress): Promise<Outcome> => {
    const profile = await profiles.pin(record.profile);
    progress.readOnly = profile.readOnly;
    const worktree = await checkout(record, run, repos);
    progress.worktree = worktree;
    if (profile.readOnly && isOlder(record)) progress.before = await repos.snapshot(worktree, run.signal);
    const launch = await profile.materialise({
      jobId: record.id,
      worktreePath: worktree.path,
      worktreeId: worktree.worktreeId,
      repoKey: worktree.repoKey,
      filePath: record.request.file_path,
    });
    const agent = await runJobAgent({
      record,
      run,
      worktree,
      launch,
      readOnly: profile.readOnly,
      agent: deps.agent,
      profiles,
      newId: deps.newId,
      log,
    });
    progress.agent = agent;
    run.signal.throwIfAborted();
    if (!agent.ok) return await keepWork(record, run, progress, failedRun(agent));
    // A push cannot be taken back: a job that another instance has by now is not ours to deliver.
    if (!(await run.isOurs())) throw new NoLongerOurs("the job was taken away from this run");
    run.note(told(agent));
    const { before } = progress;
    const { redact } = deps;
    const delivered = await deliver({ record, run, worktree, before, profile, agent, repos, redact });
    return { kind: "succeeded", patch: { ...told(agent), ...delivered } };
  };

  /** Saves what is in the worktree, then says how the run ended. */
  const keepWork = async (
    record: JobRecord,
    run: Run,
    progress: Progress,
    outcome: Outcome,
  ): Promise<Outcome> => {
    const { worktree, agent } = progress;
    const known = { ...(agent === null ? {} : told(agent)), ...outcome.patch };
    if (worktree === null) return { ...outcome, patch: known };
    return {
      ...outcome,
      patch: { ...known, ...(await saveWork(record, { ...progress, worktree }, run.warn)) },
    };
  };

  const saveWork = async (
    record: JobRecord,
    { worktree, before, readOnly }: Omit<Progress, "agent"> & { worktree: Worktree },
    warn: (message: string) => void,
  ): Promise<JobPatch> => {
    const signal = AbortSignal.timeout(deps.salvageTimeout * 1000);
    try {
      // Without a snapshot nobody can tell its changes from the earlier work: all of it is kept and saved.
      if (readOnly && (before !== null || !isOlder(record))) {
        await repos.discardChanges(worktree, before, signal);
        return {};
      }
      const ref = await repos.salvage(worktree, record.id, signal);
      if (readOnly)
        warn("What the run changed cannot be told from the earlier work in its worktree: all of it was kept");
      return ref === null ? {} : { salvage_ref: ref, branch: worktree.branch };
    } catch (error) {
      log.error(
        { err: error, job: record.id },
        "the job's unfinished work could not be saved; its worktree is kept",
      );
      warn(
        `The unfinished work could not be saved (${message(error)}); it is still in ${worktree.path}, which is kept`,
      );
      return {};
    }
  };

  const settleLost: SettleLost = async (record) => {
    const worktree = await repos.findWorktree(record.worktree_id ?? record.id);
    const left = await killOrphans(record.process, jobMarker(record.id, deps.instance), {
      graceSeconds: deps.orphanGrace,
      directories: worktree === null ? [] : [worktree.path, cacheDirectoryOf(worktree) ?? worktree.path],
    });
    // It has ended well: its worktree is looked after as that of any other such job.
    if (record.status !== "cancelled" && wasPushed(record)) return { requeue: false, patch: {} };
    const again = (record.process === null || record.retry_lost === true) && mayRunAgain(record);
    if (record.status === "running" && again) return { requeue: true, patch: {} };
    const warnings = [...record.warnings, ...leftWarnings(left)];
    const readOnly = record.read_only === true;
    const saved =
      worktree === null
        ? {}
        : await saveWork(record, { worktree, before: null, readOnly }, (text) => warnings.push(text));
    return { requeue: false, patch: { ...saved, warnings } };
  };

  return {
    execute,
    settleLost,
    removeConfig: (record: JobRecord): Promise<void> => profiles.discard(record.id),
  };
};

type Progress = {
  worktree: Worktree | null;
  /** What a worktree with the work of earlier jobs held before a read-only agent started in it. */
  before: Snapshot | null;
  /** Whether its profile may only read. */
  readOnly: boolean;
  agent: TurnOutcome | null;
};

/** Whether the job's worktree was there before it (prepared, or that of a resumed session): one of its own has its id. */
const isOlder = ({ id, worktree_id }: JobRecord): boolean => worktree_id !== null && worktree_id !== id;

/** What the agent's outcome says about a job, however it ended. */
const told = (agent: TurnOutcome): JobPatch => ({
  exit_code: agent.exitCode,
  output: agent.text === "" ? null : agent.text,
  num_turns: agent.numTurns,
  cost_usd: agent.costUsd,
  usage: agent.usage,
  ...(agent.sessionId === null ? {} : { session_id: agent.sessionId }),
  ...(agent.model === null ? {} : { model: agent.model }),
});

const failedRun = (agent: TurnOutcome): Outcome => ({
  kind: "failed",
  patch: { failure_reason: agent.reason ?? "internal", retryable: agent.retryable, error: agent.error },
});

const interrupted = (signal: AbortSignal, record: JobRecord, { agent }: Progress): Outcome => {
  const reason = signal.reason as Interruption;
  const isFenced = reason === "fence";
  // A run whose agent had not got its prompt can simply be done again. When nobody has taken over what was fenced after all, it
  // is queued again as if somebody had seen it lost.
  if (reason !== "cancel" && (record.retry_lost === true || (!agent?.prompted && !isFenced)))
    return { kind: "requeue", patch: { pid: null, process: null } };
  const error = isFenced
    ? "The instance lost touch with the others while the job ran; submit the task again"
    : "The service was stopped while the job ran; submit the task again";
  return { kind: "failed", patch: { failure_reason: "instance_lost", retryable: true, error } };
};

/** How often a job is tried that fails for want of the instances' common store, before its agent has been started. */
const mostTries = 5;

const failureOf = (error: unknown, { attempt }: JobRecord): Outcome => {
  const failed = (reason: NonNullable<JobPatch["failure_reason"]>, retryable: boolean): Outcome => ({
    kind: "failed",
    patch: { failure_reason: reason, retryable, error: message(error) },
  });
  if (error instanceof RepoError && error.again && attempt < mostTries)
    return { kind: "requeue", patch: { pid: null, process: null } };
  if (error instanceof RepoError) return failed(error.reason, error.retryable);
  if (error instanceof ProfileError) return failed(error.reason, false);
  if (error instanceof UnknownSession) return failed("agent_error", false);
  return failed("internal", true);
};

const message = (error: unknown): string => (error instanceof Error ? error.message : String(error));
