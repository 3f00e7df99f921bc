import type { TurnOutcome } from "../agents/agent.ts";
import { type Check, failsJob } from "../contract/check.ts";
import { type ErrorCode, ServiceError } from "../contract/errors.ts";
import { unanswered } from "../jobs/answer.ts";
import type { Interruption, Outcome, Run } from "../jobs/run.ts";
import type { Setup } from "../place/plan.ts";
import { SetupError } from "../place/setup.ts";
import { ProfileError } from "../profiles/profile.ts";
import { setupFile } from "../profiles/setup.ts";
import { RepoError, type Worktree } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch } from "../store/job-store.ts";
import { NotExchanged } from "../store/kept-files.ts";
import type { Asking } from "./asking.ts";
import { howItEnded } from "./checks.ts";
import { UnknownSession } from "./turn.ts";

/** How far a run has got. */
export type Progress = {
  worktree: Worktree | null;
  /** The worktree of a read-only profile: it is removed with the run. */
  isThrowaway: boolean;
  /** The last turn of the agent. */
  agent: TurnOutcome | null;
  /** What its turns add to the job. */
  facts: JobPatch;
  /** Where it is taken up if it is stopped now; null: its agent is at work. */
  checking: JobRecord["checking"];
};

/** The plan is not wanted: nothing is done. */
export const refusedPlan: Outcome = { kind: "succeeded", patch: { outcome: "plan" } };

/** Only its setup was wanted; `setup` null: there is none. */
export const setUp = (setup: Setup | null): Outcome => ({
  kind: "succeeded",
  patch: {
    outcome: "no_change",
    summary: setup === null ? nothingToSetUp : "The worktree was set up.",
    branch: null,
  },
});

const nothingToSetUp = `There is no setup: write ${setupFile} in the repository, or setup in the profile.`;

export const unansweredRun = (record: JobRecord, { waiting }: Asking): Outcome => ({
  kind: "failed",
  patch: waiting === null ? {} : unanswered(record.id, waiting),
});

/** Checks of its work stay red. */
export const endedRed = (record: JobRecord, checks: readonly Check[]): JobPatch => {
  const id = record.id.slice(0, 8);
  const red = checks.filter(failsJob).map((check) => `${check.name} ${howItEnded(check)}`);
  return {
    failure_reason: "checks_failed",
    retryable: true,
    error: `The work is not ready: its checks are red (${red.join(", ")}).\nWhat to do: svc job ${id} shows their output; svc continue ${id} "what to do about it".`,
  };
};

export const failedRun = (agent: TurnOutcome, run: Run): Outcome => {
  if (agent.numTurns !== null) run.stage("result", "error");
  const { reason, retryable, error } = agent;
  return { kind: "failed", patch: { failure_reason: reason ?? "internal", retryable, error } };
};

/**
 * What becomes of a job whose run was stopped.
 *
 * | the run was     | and                                          | the job                                  |
 * |-----------------|----------------------------------------------|------------------------------------------|
 * | stopped, fenced | its work was being checked                   | goes on there                            |
 * | stopped         | it was to go on, and its agent got no prompt | goes on there                            |
 * | stopped         | its agent got no prompt                      | is queued again                          |
 * | stopped, fenced | its profile allows another try               | is queued again                          |
 * | anything else   |                                              | fails, `instance_lost`, or was cancelled |
 */
export const interrupted = (
  signal: AbortSignal,
  record: JobRecord,
  { agent, facts, checking }: Progress,
): Outcome => {
  const reason = signal.reason as Interruption;
  if (reason !== "cancel" && checking !== null) return { kind: "parked", patch: { ...facts, checking } };
  const isFenced = reason === "fence";
  const isPrompted = agent?.prompted === true;
  const canRepeat = reason === "shutdown" && !isPrompted;
  // A new attempt would be told the task again.
  if (canRepeat && record.resumed_at !== null) return { kind: "parked", patch: {} };
  // If no instance took over a fenced job after all, it is queued again as a lost one would be.
  if (canRepeat || (reason !== "cancel" && record.retry_lost))
    return { kind: "requeue", patch: { pid: null, process: null } };
  const what = isFenced ? "The instance lost touch with the others" : "The service was stopped";
  const next = `svc ${isPrompted ? "continue" : "retry"} ${record.id.slice(0, 8)}`;
  const error = `${what} while the job ran.\nWhat to do: ${next}.`;
  return { kind: "failed", patch: { failure_reason: "instance_lost", retryable: true, error } };
};

/** Attempts of a job that fails because the shared store is unreachable before its agent has started. */
const maxAttempts = 5;

/** What can be amiss with a job's secrets. */
const atStart: ErrorCode[] = ["secrets_unavailable", "sandbox_required"];

/** `progress`: how far the run has got. Work that was done and not delivered is delivered later. */
export const failureOf = (error: unknown, { attempt, id }: JobRecord, progress: Progress): Outcome => {
  const failed = (
    reason: NonNullable<JobPatch["failure_reason"]>,
    retryable: boolean,
    text = message(error),
  ): Outcome => ({ kind: "failed", patch: { failure_reason: reason, retryable, error: text } });
  if (error instanceof RepoError && error.again && attempt < maxAttempts)
    return { kind: "requeue", patch: { pid: null, process: null } };
  if (error instanceof RepoError)
    return failed(
      error.reason,
      error.retryable,
      isUndelivered(error, progress) ? withDelivery(error.message, id) : error.message,
    );
  if (error instanceof ProfileError) return failed(error.reason, false);
  if (error instanceof NotExchanged) return failed("worktree_failed", false);
  if (error instanceof SetupError) return failed("setup_failed", error.retryable);
  if (error instanceof ServiceError && atStart.includes(error.code)) return failed("setup_failed", true);
  if (error instanceof UnknownSession) return failed("agent_error", false);
  return failed("internal", true);
};

const isUndelivered = ({ reason }: RepoError, { agent, checking }: Progress): boolean =>
  ["push_failed", "pr_failed"].includes(reason) && (agent !== null || checking !== null);

/** Why work was not delivered, with the command that delivers it. */
export const withDelivery = (text: string, jobId: string): string => {
  const again = `svc continue ${jobId.slice(0, 8)}`;
  if (text.includes("svc continue")) return text.replaceAll("svc continue JOB", again);
  const lead = text.includes("\nWhat to do: ") ? " Then" : "\nWhat to do";
  return `${text}${lead}: ${again} --deliver.`;
};

export const message = (error: unknown): string => (error instanceof Error ? error.message : String(error));
