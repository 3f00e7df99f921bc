import type { Bell } from "../lib/bell.ts";
import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";
import { endPatch } from "./end-patch.ts";
import type { Queue } from "./queue.ts";
import { announceEnd } from "./settle.ts";
import { takeStep } from "./state.ts";

type Dependencies = {
  store: JobStore;
  events: EventLog;
  queue: Pick<Queue, "add" | "remove">;
  /** Rung with its id when a job has ended. */
  settlements: Bell;
  now: () => Date;
  log: Log;
};

/** A job whose instance died this often is not tried again: it may be the cause. */
const maxAttempts = 5;

export const mayRunAgain = (record: JobRecord): boolean => record.attempt < maxAttempts && !wasPushed(record);

/** Whether this attempt has pushed its branch, which comes after a good result only. */
export const wasPushed = ({ stages, attempt }: JobRecord): boolean =>
  stages.some((passed) => passed.stage === "pushed" && passed.attempt === attempt);

/** The warning of a job that was interrupted between its push and the word of its pull request. */
export const pullRequestUnknown = (branch: string | null): string =>
  `The branch ${branch} was pushed, but the service ended before it knew of a pull request: look whether there is one, or open it by hand`;

/** Queues a job again whose instance was lost. False: it is not that run's any more. */
export const requeueLost = async (
  deps: Dependencies,
  { id, attempt, pod_name }: JobRecord,
  patch: JobPatch,
): Promise<boolean> => {
  const again = await takeStep(deps.store, {
    id,
    trigger: "requeue",
    attempt,
    patch: () => ({ ...patch, pid: null, process: null, unsettled: false }),
  });
  if (again === null) return false;
  await count(deps, "recovered");
  // What is left of the old entry must not stand in the way of the new one.
  await deps.queue.remove({ id, boundTo: again.bound_to });
  await deps.queue.add({ id, boundTo: again.bound_to });
  deps.log.warn({ job: id, instance: pod_name }, "job of a lost run queued again");
  return true;
};

type Loss = { neverStarted: boolean; patch: JobPatch };

/** Fails a job whose instance was lost; one that was pushed has succeeded. False: it is not that run's any more. */
export const failLost = async (
  deps: Dependencies,
  record: JobRecord,
  { neverStarted, patch }: Loss,
): Promise<boolean> => {
  const pushed = wasPushed(record);
  const lost = await takeStep(deps.store, {
    id: record.id,
    trigger: pushed ? "succeed" : "fail",
    attempt: record.attempt,
    patch: (current) => ({
      ...endPatch(current, deps.now()),
      ...(pushed ? succeeded(current) : failed(record, neverStarted, patch)),
      ...patch,
    }),
  });
  if (lost === null) return false;
  if (!pushed) await count(deps, "lost");
  deps.log.warn({ job: record.id, instance: record.pod_name }, `job of a lost run ${lost.status}`);
  await announceEnd(deps, lost);
  return true;
};

/** What is counted is nothing to the job: its next step must not be left out for it. */
const count = async ({ store, log }: Dependencies, what: "lost" | "recovered"): Promise<void> => {
  await store.count(what).catch((err: unknown) => log.debug({ err }, `a ${what} job could not be counted`));
};

const succeeded = ({ branch, pr_url, warnings }: JobRecord): JobPatch =>
  pr_url === null ? { warnings: [...warnings, pullRequestUnknown(branch)] } : {};

const failed = (record: JobRecord, neverStarted: boolean, patch: JobPatch): JobPatch => ({
  failure_reason: "instance_lost",
  retryable: true,
  error: sentence(record, neverStarted, patch),
});

const sentence = (record: JobRecord, neverStarted: boolean, { salvage_ref, unsettled }: JobPatch): string => {
  if (neverStarted)
    return `The service ended ${record.attempt} times while it prepared this job; submit it again if the service is stable`;
  const saved = salvage_ref ?? null;
  // Nothing is saved when the work is kept for the instance to save it when it is back.
  if (unsettled === true) {
    return `The instance ${record.pod_name ?? ""} was lost while the agent was at work; what is left on its disk is saved under salvage_ref when it comes back. Submit the task again`;
  }
  const work = saved === null ? "" : "its unfinished work is in salvage_ref, ";
  return `The service ended while the agent was at work; ${work}submit the task again`;
};
