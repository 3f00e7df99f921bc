import type { Log } from "../lib/log.ts";
import type { EventLog } from "../store/event-log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore, UnsettledRun } from "../store/job-store.ts";
import type { SettleLost } from "./execute.ts";
import { failLost, mayRunAgain, requeueLost } from "./lost.ts";
import type { Queue } from "./queue.ts";
import { announceEnd, writeOutcome } from "./settle.ts";
import type { Spool } from "./spool.ts";
import type { Bell } from "../lib/bell.ts";

type Dependencies = {
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
 * At start: writes the outcomes that an earlier start could not, and settles the jobs that it left running or did not
 * clean up after. Resolves to how many when every one is settled.
 */
export const recover = async (deps: Dependencies): Promise<{ recovered: number }> => {
  await replay(deps);
  const unsettled = (await deps.store.unsettled()).filter(deps.wasOurs);
  for (const { id } of unsettled) deps.events.open(id);
  const settled = await Promise.allSettled(unsettled.map(({ id }) => settleOne(id, deps)));
  const failures = settled.flatMap((result) =>
    result.status === "rejected" ? [result.reason as unknown] : [],
  );
  // One job that cannot be settled must not keep the others; it is tried again at the next start.
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} jobs could not be settled`);
  return { recovered: unsettled.length };
};

/** Where the queue does not outlive the service: queues the jobs that wait, oldest first. */
export const queueWaiting = async ({
  store,
  events,
  queue,
}: Pick<Dependencies, "store" | "events" | "queue">): Promise<void> => {
  const waiting = await store.ids("queued");
  for (const id of waiting) {
    const record = await store.get(id);
    if (record !== null) events.begin(id, record.created_at);
  }
  for (const id of waiting) await queue.add({ id, boundTo: null });
};

const replay = async (deps: Dependencies): Promise<void> => {
  for (const spooled of await deps.spool.all()) {
    const settled = await writeOutcome(deps.store, spooled);
    if (settled?.record.status === "queued") await deps.queue.add(entryOf(settled.record));
    if (settled?.announce === true) await announceEnd(deps, settled.record);
    await deps.spool.drop(spooled);
    deps.log.info({ job: spooled.id }, "the outcome of the job has been written from the spool");
  }
};

const settleOne = async (id: string, deps: Dependencies): Promise<void> => {
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
