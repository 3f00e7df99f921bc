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
 * At start: settles the jobs that an earlier start left running or did not clean up after. Rejects when it could not settle
 * all of them; what is left may then be tried again at any time.
 */
export const settleEarlier = async (deps: Recovery): Promise<{ recovered: number }> => {
  const unsettled = (await deps.store.unsettled()).filter(deps.wasOurs);
  for (const { id } of unsettled) deps.events.open(id);
  const settled = await Promise.allSettled(unsettled.map(({ id }) => settleOne(id, deps)));
  const failures = settled.flatMap((result) =>
    result.status === "rejected" ? [result.reason as unknown] : [],
  );
  const recovered = unsettled.length - failures.length;
  const tell = recovered > 0 ? deps.log.info.bind(deps.log) : deps.log.debug.bind(deps.log);
  tell({ recovered }, "jobs of the earlier start taken up");
  // One job that cannot be settled must not keep the others.
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} jobs could not be settled`);
  return { recovered };
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

const settleOne = async (id: string, deps: Recovery): Promise<void> => {
  const record = await deps.store.get(id);
  if (record === null) return;
  const { requeue, patch } = await deps.settleLost(record);
  const settled = { ...patch, unsettled: false, process: null };
  if (record.status === "running" && requeue && mayRunAgain(record)) {
    const again = await requeueLost(deps, record, settled);
    if (again) return;
  }
  const lost = await failLost(deps, record, { neverStarted: requeue, patch: settled });
  if (lost) return;
  const added = await deps.store.update(id, { status: ["cancelled", "failed", "succeeded"] }, settled);
  deps.log.info({ job: id, status: record.status }, "job of an earlier start cleaned up");
  // Who called it lost has said so; a cancelled one ends for its readers only now.
  if (added?.status === "cancelled") await announceEnd(deps, added);
};

const entryOf = ({ id, bound_to }: JobRecord) => ({ id, boundTo: bound_to });
