import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../lib/log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { Interruption } from "./execute.ts";
import type { OwnRun, Worker } from "./worker.ts";

type Dependencies = {
  store: Pick<JobStore, "get">;
  worker: Pick<Worker, "runs" | "interrupt">;
  epoch: string;
  /** Whether this instance's lease may have lapsed, as far as it can tell without the store. */
  leaseMayHaveLapsed: () => boolean;
  log: Log;
};

/**
 * How long the store is waited for at a look, ms: one that is cut off answers much later or never, and what may be run twice
 * must have ended before others may begin, half a lease after the lapse.
 */
const patience = 500;

/**
 * The fence: sees to it that what this instance runs still is its own. A job may have been cancelled elsewhere, or, when
 * this instance was frozen or cut off for longer than its lease, been settled or taken over by another: then its agent
 * must not go on.
 */
export const createOwnership = ({ store, worker, epoch, leaseMayHaveLapsed, log }: Dependencies) => {
  const act = (run: OwnRun, reason: Interruption | null): void => {
    if (reason === null) return;
    if (reason === "fence")
      log.warn({ job: run.id }, "the job is no longer this instance's: its agent is ended");
    worker.interrupt(run.id, reason);
  };

  /** False: the store could not be asked, or did not answer in time. An answer that comes later counts all the same. */
  const lookAt = async (run: OwnRun): Promise<boolean> => {
    const asking = store.get(run.id).then((record) => act(run, judge(record, run, epoch)));
    return await inTime(asking).then(
      () => true,
      () => {
        if (run.retryLost && leaseMayHaveLapsed()) act(run, "fence");
        return false;
      },
    );
  };

  return {
    /**
     * Looks at all runs; false: the store could not be asked. Never rejects: while the store is away runs go on, unless
     * they may be run twice.
     */
    look: async (): Promise<boolean> => (await Promise.all(worker.runs().map(lookAt))).every(Boolean),
  };
};

export type Ownership = ReturnType<typeof createOwnership>;

const inTime = <Value>(answer: Promise<Value>): Promise<Value> => {
  answer.catch(() => undefined);
  const late = delay(patience, undefined, { ref: false }).then(() => {
    throw new Error("the store did not answer in time");
  });
  return Promise.race([answer, late]);
};

/** Why the run must end; null: it is still this instance's, or has not been claimed yet. */
const judge = (record: JobRecord | null, run: OwnRun, epoch: string): Interruption | null => {
  if (record === null) return "fence";
  // The claim is under way.
  if (record.status === "queued" && record.attempt === run.attempt - 1) return null;
  if (record.attempt !== run.attempt || record.instance_epoch !== epoch) return "fence";
  if (record.status === "cancelled") return "cancel";
  return record.status === "running" || !record.unsettled ? null : "fence";
};
