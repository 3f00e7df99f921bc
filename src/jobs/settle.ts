import type { Notifier } from "../lib/notifier.ts";
import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import { failsJob } from "../contract/check.ts";
import { isFinal } from "../contract/job.ts";
import { canGoOn, isParkedByLoss, outlivesInstance, type JobRecord } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";
import { withWarnings } from "./notes.ts";
import type { Outcome } from "./run.ts";
import type { Queue } from "./queue.ts";
import { statusAfter, takeStep } from "./state.ts";

export type Settling = {
  store: JobStore;
  events: EventLog;
  queue: Pick<Queue, "add" | "remove">;
  /** Notified with its id when a job has ended. */
  jobEnds: Notifier;
  /** Called once for each job that this process ended, when nothing of it runs any more. Must not throw. */
  onEnded: (record: JobRecord) => void;
  now: () => Date;
  log: Log;
};

/** Why a run is over. */
export type Cause =
  /** Its worker reports the outcome of the start `epoch`. `again`: an earlier try may have succeeded, its reply lost. */
  | { kind: "outcome"; outcome: Outcome; at: string; epoch: string | null; again?: boolean }
  /** Its instance is lost, or does not know the run. `cleaned`: what the clean-up found; null: it follows, by its instance. */
  | { kind: "lost"; cleaned: { requeue: boolean; patch: JobPatch } | null };

/** `ended`: this call ended the job. */
export type Settled = { record: JobRecord; ended: boolean };

/**
 * How a run ends. The worker, recovery and the sweep for lost instances supply the cause; one compare-and-set on the
 * record decides what becomes of the job:
 *
 * | the record says           | why the run is over           | the job                                                   |
 * |---------------------------|-------------------------------|-----------------------------------------------------------|
 * | running, this attempt     | outcome                       | succeeded, failed, or queued again, as the outcome says   |
 * | running, this attempt     | parked                        | running, without a process; resumed when it can go on     |
 * | running, this attempt     | lost while it waited          | the same                                                  |
 * | running, this attempt     | lost, and it may run again    | queued again                                              |
 * | running, this attempt     | lost after its push           | succeeded; warned if no pull request is known             |
 * | running, this attempt     | lost otherwise                | failed, `instance_lost`                                   |
 * | ended, not cleaned up     | outcome, or it is cleaned up  | unchanged, but for where the run's work is                |
 * | anything else             |                               | untouched (null): another run's, or settled already       |
 *
 * A lost job may run again when nothing is pushed, it had fewer than five attempts, and its agent never started or its
 * profile allows it. State first: a run that was not cleaned up stays `unsettled`, and its work is saved later.
 */
export const settle = async (
  deps: Settling,
  { id, attempt }: Pick<JobRecord, "id" | "attempt">,
  cause: Cause,
): Promise<Settled | null> => {
  const { store, log } = deps;
  let wasRunning = false;
  const epoch = cause.kind === "outcome" ? { epoch: cause.epoch } : {};
  const guard = { status: ["running", "succeeded", "failed", "cancelled"] as const, attempt, ...epoch };
  const record = await store.update(id, guard, (current) => {
    wasRunning = current.status === "running";
    if (cause.kind === "lost" && wasRunning) return lostAs(current, cause, deps.now());
    if (cause.kind === "lost") return current.unsettled ? afterEnd(current, cause) : null;
    const noted = { ...current, warnings: withWarnings(current, cause.outcome.warnings ?? []) };
    if (wasRunning) return endedAs(noted, cause);
    return current.unsettled ? afterEnd(noted, cause) : null;
  });
  if (record === null)
    return cause.kind === "outcome" ? await settledBefore(deps, { id, attempt }, cause) : null;
  if (cause.kind === "lost" && wasRunning) await afterLoss(deps, record);
  if (!isFinal(record.status)) return { record, ended: false };
  // A job called lost has had its end announced; a cancelled one ends for its readers once nothing of it runs.
  const ended = wasRunning || (record.status === "cancelled" && !record.unsettled);
  if (ended) announceEnd(deps, record);
  else deps.jobEnds.notify(id);
  if (cause.kind === "lost" && !wasRunning)
    log.info({ job: id, status: record.status }, "job of a lost run cleaned up");
  return { record, ended };
};

/** Ends a waiting job, or one that its caller cancels; null: it has ended already. Does not end its run. */
export const endJob = async (
  deps: Omit<Settling, "log">,
  id: string,
  trigger: "cancel" | "expire" | "giveUp" | "fail",
  patch: (record: JobRecord) => JobPatch | null,
): Promise<JobRecord | null> => {
  const record = await takeStep(deps.store, {
    id,
    trigger,
    patch: (current) => {
      const changes = patch(current);
      const unsettled = current.unsettled || isParkedByLoss(current);
      return changes === null ? null : { ...endPatch(current, deps.now()), unsettled, ...changes };
    },
  });
  if (record === null) return null;
  if (record.unsettled && record.status === "cancelled") deps.jobEnds.notify(id);
  else {
    await deps.queue.remove({ id, boundTo: record.bound_to });
    announceEnd(deps, record);
  }
  return record;
};

/** A job whose instance died this often is not retried: it may be the cause. */
const maxAttempts = 5;

/** Whether a lost run may be repeated, by its record. */
export const mayRunAgain = (record: JobRecord): boolean =>
  (record.process === null || record.retry_lost) && record.attempt < maxAttempts && !wasPushed(record);

/** Whether this attempt has pushed its branch after a good result, good checks and those of its further repositories. */
export const wasPushed = ({ stages, attempt, repositories, checks }: JobRecord): boolean =>
  !checks.some(failsJob) &&
  repositories.every(({ error }) => error === null) &&
  stages.some((passed) => passed.stage === "pushed" && passed.attempt === attempt);

/** Warning of a job that was interrupted between its push and the answer about its pull request. */
export const pullRequestUnknown = (branch: string | null): string =>
  `The branch ${branch} was pushed, but the service ended before it knew of a pull request: look whether there is one, or open it by hand`;

type Ended = Extract<Cause, { kind: "outcome" }>;
type Lost = Extract<Cause, { kind: "lost" }>;

/** The step that each kind of outcome takes. */
export const triggers = {
  succeeded: "succeed",
  failed: "fail",
  requeue: "requeue",
  parked: "park",
} as const;

const endedAs = (record: JobRecord, { outcome, at }: Ended): JobPatch => {
  const { kind, patch } = outcome;
  const { warnings } = record;
  if (kind === "parked") return { warnings, ...parkedAs(record, patch) };
  return {
    warnings,
    ...(kind === "requeue" && { waiting: null }),
    ...patch,
    ...(kind !== "requeue" && endPatch({ ...record, ...patch }, new Date(at))),
    ...statusAfter(record, triggers[kind]),
    checking: null,
    unsettled: false,
  };
};

/** An answer that has come in the meantime stays. Only where its worktree is can it go on. It asks the model again when it does. */
const parkedAs = (record: JobRecord, patch: JobPatch): JobPatch => ({
  waiting: record.waiting?.kind === "model" ? null : record.waiting,
  ...patch,
  asked: record.asked,
  pid: null,
  process: null,
  instance_epoch: null,
  unsettled: false,
  bound_to: record.pod_name,
  ...statusAfter(record, "park"),
});

const lostAs = (record: JobRecord, { cleaned }: Lost, now: Date): JobPatch => {
  const patch =
    cleaned === null ? { unsettled: true } : { ...cleaned.patch, unsettled: false, process: null };
  // Its own instance still has to clean up after one that ends without going on.
  if (outlivesInstance(record))
    return { ...parkedAs(record, patch), ...(cleaned === null && { instance_epoch: record.instance_epoch }) };
  if (cleaned?.requeue !== false && mayRunAgain(record)) {
    const free = { pid: null, process: null, instance_epoch: null, waiting: null, unsettled: false };
    return { ...patch, ...free, ...statusAfter(record, "requeue") };
  }
  const { branch, pr_url, warnings } = record;
  if (!wasPushed(record)) {
    const failure = {
      failure_reason: "instance_lost",
      retryable: true,
      error: sentence(record, patch),
    } as const;
    return { ...endPatch(record, now), ...failure, ...patch, ...statusAfter(record, "fail") };
  }
  const warned = pr_url === null ? { warnings: [...warnings, pullRequestUnknown(branch)] } : {};
  const succeeded = { ...warned, outcome: "changed" as const, ...patch };
  return { ...endPatch(record, now), ...succeeded, ...statusAfter(record, "succeed") };
};

/** Adds what a run left to a job that ended otherwise; null: the run was not cleaned up yet. */
const afterEnd = (record: JobRecord, cause: Cause): JobPatch | null => {
  const patch = cause.kind === "outcome" ? cause.outcome.patch : cause.cleaned?.patch;
  if (patch === undefined) return null;
  const settled = { unsettled: false, checking: null, ...(cause.kind === "lost" && { process: null }) };
  const { failure_reason: _reason, retryable: _retryable, error: _error, stages: _stages, ...added } = patch;
  if (record.status === "cancelled")
    return {
      warnings: record.warnings,
      ...added,
      ...settled,
      duration_ms: added.worked_ms ?? record.duration_ms,
    };
  // Called lost, or finished after its push: the outcome stays; the location of its work is added.
  const { salvage_ref = record.salvage_ref, branch = record.branch } = patch;
  const { commit_sha = record.commit_sha, pr_url = record.pr_url, warnings = record.warnings } = patch;
  const error =
    record.failure_reason === "instance_lost"
      ? sentence(record, { salvage_ref, unsettled: false })
      : record.error;
  return { salvage_ref, branch, commit_sha, pr_url, warnings, error, ...settled };
};

/** An earlier try may have written this very outcome; its end is announced now. */
const settledBefore = async (
  deps: Settling,
  { id, attempt }: Pick<JobRecord, "id" | "attempt">,
  { at, again = false }: Ended,
): Promise<Settled | null> => {
  const record = again ? await deps.store.get(id) : null;
  if (record === null || record.unsettled || record.attempt !== attempt || record.ended_at !== at)
    return null;
  announceEnd(deps, record);
  return { record, ended: true };
};

const afterLoss = async ({ store, queue, now, log }: Settling, record: JobRecord): Promise<void> => {
  const { id, status, bound_to: boundTo, pod_name: instance } = record;
  log.warn(
    { job: id, instance },
    status === "queued"
      ? "job of a lost run queued again"
      : `job of a lost run ${status === "running" ? "parked" : status}`,
  );
  const what =
    status === "queued" || status === "running" ? "recovered" : status === "failed" ? "lost" : null;
  // A failed counter must not stop the job's next step.
  if (what !== null)
    await store.count(what).catch((err: unknown) => log.debug({ err }, `a ${what} job could not be counted`));
  if (status !== "queued" && !canGoOn(record, now().getTime())) return;
  // The old entry would block the new one.
  await queue.remove({ id, boundTo });
  await queue.add({ id, boundTo });
};

/** Counts an ended job, wakes those who wait for it, and ends its event log in the background. */
export const announceEnd = (
  { events, jobEnds, onEnded }: Pick<Settling, "events" | "jobEnds" | "onEnded">,
  record: JobRecord,
): void => {
  onEnded(record);
  jobEnds.notify(record.id);
  events.append(record.id, record.attempt, { type: "stage", stage: "ended", detail: record.status });
  void events.finish(record.id);
};

/** What every final state sets. What was being checked stays on record until nothing of the run is left. */
export const endPatch = (record: JobRecord, at: Date) => ({
  ended_at: at.toISOString(),
  booked: false,
  waiting: null,
  held: null,
  asked: null,
  duration_ms: record.started_at === null ? null : record.worked_ms,
  stages: [...record.stages, { stage: "ended" as const, at: at.toISOString(), attempt: record.attempt }],
});

const sentence = (record: JobRecord, { salvage_ref = null, unsettled }: JobPatch): string => {
  const id = record.id.slice(0, 8);
  const what = `The instance ${record.pod_name ?? ""} ended or was cut off while the agent was at work`;
  if (record.process === null)
    return `The service ended ${record.attempt} times while it prepared this job.\nWhat to do: If the service is stable, svc retry ${id}.`;
  // The work stays with the instance, which saves it when it is back.
  if (unsettled === true)
    return `${what}; what is left on its disk is saved when it is back.\nWhat to do: When it is back, svc continue ${id}.`;
  const work = salvage_ref === null ? "" : `; its work is saved as ${salvage_ref}`;
  return `${what}${work}.\nWhat to do: svc continue ${id}.`;
};
