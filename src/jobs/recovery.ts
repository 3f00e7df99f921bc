import { finalStatuses } from "../contract/job.ts";
import { failureOf } from "../kv/failure.ts";
import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore, UnsettledRun } from "../store/job-store.ts";
import type { SettleLost } from "./execute.ts";
import { failLost, mayRunAgain, requeueLost } from "./lost.ts";
import type { Queue } from "./queue.ts";
import { announceEnd, writeOutcome } from "./settle.ts";
import type { Spool, Spooled } from "./spool.ts";
import type { Bell } from "../lib/bell.ts";

export type Recovery = {
  store: JobStore;
  events: EventLog;
  queue: Queue;
  spool: Spool;
  /** Rung with its id when a job has ended. */
  settlements: Bell;
  settleLost: SettleLost;
  /** Whether a run was one of an earlier start of this instance. */
  wasOurs: (run: UnsettledRun) => boolean;
  now: () => Date;
  log: Log;
};

/**
 * At start, and only before the first job: writes the outcomes that an earlier start could not. To be done again when it
 * rejects, as it does when the store fails.
 */
export const replay = async (deps: Recovery): Promise<void> => {
  for (const spooled of await deps.spool.all()) {
    await replayOne(spooled, deps).catch((err: unknown) => {
      if (isOfStore(err)) throw err;
      deps.log.error({ err, job: spooled.id }, "the outcome of the job cannot be written from the spool");
    });
  }
};

/**
 * At start, and before the first job: says what becomes of the jobs that an earlier start left running. Those that may run
 * again are queued, once nothing of them runs any more; of the others the final state is written, and what they left
 * (`unsettled` says so) is for `cleanUpEarlier`. Rejects when it could not do all; it may be done again at any time.
 */
export const settleEarlier = (deps: Recovery): Promise<number> =>
  forEachEarlier(deps, async (record) => {
    // Of any other status the end has been told.
    if (record.status === "running" || record.status === "cancelled") deps.events.open(record.id);
    if (record.status !== "running") return;
    const neverStarted = record.process === null;
    if ((neverStarted || record.retry_lost !== false) && mayRunAgain(record)) await cleanUp(record, deps);
    else await failLost(deps, record, { neverStarted, patch: { unsettled: true } });
  });

/** Ends what jobs of an earlier start left running, and saves their work. Rejects as `settleEarlier` does. */
export const cleanUpEarlier = async (deps: Recovery): Promise<void> => {
  const recovered = await forEachEarlier(deps, cleanUp);
  if (recovered > 0) deps.log.info({ recovered }, "cleaned up after jobs of the earlier start");
};

const forEachEarlier = async (
  deps: Recovery,
  step: (record: JobRecord, deps: Recovery) => Promise<void>,
): Promise<number> => {
  const unsettled = (await deps.store.unsettled()).filter(deps.wasOurs);
  const done = await Promise.allSettled(
    unsettled.map(async ({ id }) => {
      const record = await deps.store.get(id);
      if (record !== null) await step(record, deps);
    }),
  );
  const failures = done.flatMap((result) => (result.status === "rejected" ? [result.reason as unknown] : []));
  // One job that cannot be settled must not keep the others.
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} jobs could not be settled`);
  return unsettled.length;
};

/** Whether it is because of the store that something could not be taken up, and not because of a job. */
export const isOfStore = (error: unknown): boolean =>
  error instanceof AggregateError ? error.errors.some(isOfStore) : failureOf(error) !== "value";

/** Where the queue does not outlive the service: queues the jobs that wait, oldest first. */
export const queueWaiting = async ({
  store,
  events,
  queue,
}: Pick<Recovery, "store" | "events" | "queue">): Promise<void> => {
  const waiting = await store.ids("queued");
  for (const id of waiting) {
    const record = await store.get(id);
    if (record !== null) events.begin(id, record.created_at);
  }
  for (const id of waiting) await queue.add({ id, boundTo: null });
};

const replayOne = async (spooled: Spooled, deps: Recovery): Promise<void> => {
  // It may have been written without our hearing of it, by the earlier start or at the try before.
  const settled = await writeOutcome(deps.store, spooled, { again: true });
  if (settled?.record.status === "queued") await deps.queue.add(entryOf(settled.record));
  if (settled?.announce === true) await announceEnd(deps, settled.record);
  await deps.spool.drop(spooled);
  deps.log.info({ job: spooled.id }, "the outcome of the job has been written from the spool");
};

const cleanUp = async (record: JobRecord, deps: Recovery): Promise<void> => {
  const { requeue, patch } = await deps.settleLost(record);
  const settled = { ...patch, unsettled: false, process: null };
  if (record.status === "running" && requeue && mayRunAgain(record)) {
    const again = await requeueLost(deps, record, settled);
    if (again) return;
  }
  const lost = await failLost(deps, record, { neverStarted: record.process === null, patch: settled });
  if (lost) return;
  const { id, attempt, instance_epoch: epoch } = record;
  const added = await deps.store.update(id, { status: finalStatuses, attempt, epoch }, settled);
  if (added === null) return;
  deps.log.info({ job: id, status: added.status }, "job of an earlier start cleaned up");
  // Who called it lost has said so; a cancelled one ends for its readers only now.
  if (added.status === "cancelled") await announceEnd(deps, added);
  else deps.settlements.ring(id);
};

const entryOf = ({ id, bound_to }: JobRecord) => ({ id, boundTo: bound_to });
