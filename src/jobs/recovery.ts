import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { SettleLost } from "./execute.ts";
import { endPatch } from "./jobs.ts";
import type { Queue } from "./queue.ts";
import type { Bell } from "../lib/bell.ts";
import { takeStep } from "./state.ts";

type Dependencies = {
  store: JobStore;
  events: EventLog;
  queue: Queue;
  /** Rung with its id when a job has ended. */
  settlements: Bell;
  settleLost: SettleLost;
  now: () => Date;
  log: Log;
};

/** A job whose instance died this often before its agent was started is not tried again: it may be the cause. */
const maxAttempts = 5;

/**
 * At start: settles the jobs that an earlier start of this instance left running or did not clean up after, and
 * queues those that wait, oldest first. Resolves when every one is settled.
 */
export const recover = async (deps: Dependencies): Promise<{ recovered: number; queued: number }> => {
  const unsettled = await deps.store.unsettled();
  const waiting = await deps.store.ids("queued");
  for (const id of waiting) {
    const record = await deps.store.get(id);
    if (record !== null) deps.events.begin(id, record.created_at);
  }
  for (const id of unsettled) deps.events.open(id);
  for (const id of waiting) deps.queue.add(id);
  const settled = await Promise.allSettled(unsettled.map((id) => settleOne(id, deps)));
  const failures = settled.flatMap((result) =>
    result.status === "rejected" ? [result.reason as unknown] : [],
  );
  // One job that cannot be settled must not keep the others; it is tried again at the next start.
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} jobs could not be settled`);
  return { recovered: unsettled.length, queued: waiting.length };
};

const settleOne = async (id: string, deps: Dependencies): Promise<void> => {
  const record = await deps.store.get(id);
  if (record === null) return;
  const { requeue, patch } = await deps.settleLost(record);
  const settled = { ...patch, unsettled: false, process: null };
  if (record.status === "running" && requeue && record.attempt < maxAttempts) {
    const again = await takeStep(deps.store, {
      id,
      trigger: "requeue",
      attempt: record.attempt,
      patch: () => ({ ...settled, pid: null }),
    });
    if (again !== null) return deps.queue.add(id);
  }
  const lost = await takeStep(deps.store, {
    id,
    trigger: "fail",
    attempt: record.attempt,
    patch: (current) => ({
      ...endPatch(current, deps.now()),
      ...failure(record, requeue, patch.salvage_ref ?? null),
      ...settled,
    }),
  });
  if (lost === null) await deps.store.update(id, { status: ["cancelled", "failed", "succeeded"] }, settled);
  deps.log.info({ job: id, status: lost?.status ?? record.status }, "job of an earlier start settled");
  deps.events.append(id, record.attempt, {
    type: "stage",
    stage: "ended",
    detail: lost?.status ?? record.status,
  });
  await deps.events.finish(id);
  deps.settlements.ring(id);
};

const failure = (record: JobRecord, neverStarted: boolean, salvaged: string | null) => ({
  failure_reason: "instance_lost" as const,
  retryable: true,
  error: neverStarted
    ? `The service ended ${record.attempt} times while it prepared this job; submit it again if the service is stable`
    : `The service ended while the agent was at work; ${whatIsLeft(salvaged)}submit the task again`,
});

/** Part of a sentence that says where the unfinished work of a job is; empty when none was saved. */
const whatIsLeft = (salvaged: string | null): string =>
  salvaged === null ? "" : "its unfinished work is in salvage_ref, ";
