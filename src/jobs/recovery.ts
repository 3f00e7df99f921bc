import { retry } from "../lib/wait.ts";
import { outlivesInstance, type JobRecord } from "../store/job-record.ts";
import type { JobStore, UnsettledRun } from "../store/job-store.ts";
import { isOfStore, type Spool } from "../store/spool.ts";
import type { SettleLost } from "./run.ts";
import type { Queue } from "./queue.ts";
import { mayRunAgain, settle, type Settling } from "./settle.ts";
import type { Spooled } from "./outcomes.ts";

export type Recovery = Settling & {
  store: JobStore;
  queue: Queue;
  spool: Spool<Spooled>;
  settleLost: SettleLost;
  /** Whether a run belongs to an earlier start of this instance. */
  wasOwn: (run: UnsettledRun) => boolean;
  /** Steps that may begin only once the jobs of the earlier start have their state, in this order. */
  afterwards: readonly (() => Promise<unknown>)[];
  /** Aborted when the service stops. */
  signal: AbortSignal;
};

/**
 * Settles what an earlier start left, however long the store is unreachable:
 *
 * 1. writes outcomes from the spool that the earlier start could not write;
 * 2. gives jobs that it left running their state: those that may run again are queued once none of their processes is
 *    left; the others become final, and `unsettled` marks them for step 4;
 * 3. runs `afterwards`: new work begins;
 * 4. in the background, ends what the other jobs left running and saves their work.
 *
 * A job that cannot be settled does not block the others, and is retried. Resolves when all is done or the service
 * stops; never rejects.
 */
export const recover = async (deps: Recovery): Promise<void> => {
  const { log, signal } = deps;

  /** Repeats a step until it succeeds. A failure that is not the store's ends it unless it is `patient`. */
  const untilDone = async (step: () => Promise<unknown>, { patient = false } = {}): Promise<void> => {
    let failures = 0;
    const onFailure = (err: unknown): void => {
      failures += 1;
      const logFailure = failures > 1 ? log.debug : isOfStore(err) ? log.warn : log.error;
      logFailure.call(log, { err }, "what an earlier start has left cannot all be recovered yet");
      if (!isOfStore(err) && !patient) throw err;
    };
    const work = async (): Promise<unknown> => (signal.aborted ? undefined : await step());
    await retry(work, { first: 250, longest: 5000, signal, onFailure }).catch(() => undefined);
  };

  await untilDone(() => replay(deps));
  await untilDone(() => settleEarlier(deps));
  const cleanedUp = untilDone(() => cleanUpEarlier(deps), { patient: true });
  for (const step of deps.afterwards) await untilDone(step);
  await cleanedUp;
};

/** For a queue that does not outlive the process: adds all waiting jobs, oldest first. */
export const queueWaiting = async (deps: Queueing): Promise<void> => {
  for (const id of await deps.store.ids("queued")) await deps.queue.add({ id, boundTo: null });
  await queueDue(deps);
};

/** Adds jobs that are parked or held and can go on: so many at once that a round is short. */
export const queueDue = async ({ store, queue, now }: Queueing): Promise<void> => {
  const due = await store.due("resumable", now().getTime());
  await queue.add(...due.map((id) => ({ id, boundTo: null })));
};

type Queueing = Pick<Recovery, "store" | "now"> & { queue: Pick<Queue, "add"> };

const replay = (deps: Recovery): Promise<void> =>
  deps.spool.replay(async (spooled) => {
    const { id } = spooled;
    // The earlier start, or the try before, may have written it although the reply was lost.
    const settled = await settle(deps, spooled, { kind: "outcome", ...spooled, again: true });
    if (settled?.record.status === "queued") await deps.queue.add({ id, boundTo: settled.record.bound_to });
    deps.log.info({ job: id }, "the outcome of the job has been written from the spool");
  });

const settleEarlier = (deps: Recovery): Promise<number> =>
  forEachEarlier(deps, async (record) => {
    if (record.status !== "running") return;
    if (mayRunAgain(record) || outlivesInstance(record)) await cleanUp(deps, record);
    else await settle(deps, record, { kind: "lost", cleaned: null });
  });

const cleanUpEarlier = async (deps: Recovery): Promise<void> => {
  const recovered = await forEachEarlier(deps, (record) => cleanUp(deps, record));
  if (recovered > 0) deps.log.info({ recovered }, "cleaned up after jobs of the earlier start");
};

/** Ends what a run left running, and saves its work. */
const cleanUp = async (deps: Recovery, record: JobRecord): Promise<void> => {
  await settle(deps, record, { kind: "lost", cleaned: await deps.settleLost(record) });
};

/** Resolves to their number. */
const forEachEarlier = async ({ store, wasOwn }: Recovery, step: (record: JobRecord) => Promise<void>) => {
  const earlier = (await store.unsettled()).filter(wasOwn);
  const settleOne = async (id: string): Promise<void> => {
    const record = await store.get(id);
    if (record !== null) await step(record);
  };
  const done = await Promise.allSettled(earlier.map(({ id }) => settleOne(id)));
  const failures = done.flatMap((result) => (result.status === "rejected" ? [result.reason as unknown] : []));
  if (failures.length > 0) throw new AggregateError(failures, `${failures.length} jobs could not be settled`);
  return earlier.length;
};
