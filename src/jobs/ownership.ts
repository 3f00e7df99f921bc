import type { Log } from "../lib/log.ts";
import { orAborted } from "../lib/wait.ts";
import { isParked, type JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { Interruption } from "./run.ts";
import type { OwnRun, Worker } from "./worker.ts";

type Dependencies = {
  store: Pick<JobStore, "get">;
  worker: Pick<Worker, "runs" | "interrupt">;
  epoch: string;
  /** Whether this instance's lease may have lapsed, judged without the store. */
  leaseMayHaveLapsed: () => boolean;
  log: Log;
};

/**
 * Limit of one check, ms. A store behind a cut connection answers much later or never. A run that others may repeat
 * must end half a lease after the lapse, before they begin.
 */
const checkTimeout = 500;

/**
 * The fence: checks that this instance still owns its runs. Another instance may have cancelled a job, or settled or
 * taken it over while this one was frozen or cut off for longer than its lease. The agent must then stop.
 */
export const createOwnership = ({ store, worker, epoch, leaseMayHaveLapsed, log }: Dependencies) => {
  const act = (run: OwnRun, reason: Interruption | null): void => {
    if (reason === null) return;
    if (reason === "fence")
      log.warn({ job: run.id }, "the job is no longer this instance's: its agent is ended");
    worker.interrupt(run, reason);
  };

  /** False: the store did not answer in time. A late answer counts all the same. */
  const check = async (run: OwnRun): Promise<boolean> => {
    const asking = store.get(run.id).then((record) => act(run, judge(record, run, epoch)));
    return await orAborted(asking, AbortSignal.timeout(checkTimeout)).then(
      () => true,
      () => {
        if (run.retryLost && leaseMayHaveLapsed()) act(run, "fence");
        return false;
      },
    );
  };

  return {
    /** Checks all runs; false: the store did not answer. Never rejects. Meanwhile runs go on, unless they may be repeated. */
    checkAll: async (): Promise<boolean> => (await Promise.all(worker.runs().map(check))).every(Boolean),
  };
};

export type Ownership = ReturnType<typeof createOwnership>;

/** Why the run must end; null: this instance owns it, or has not claimed it yet. */
const judge = (record: JobRecord | null, run: OwnRun, epoch: string): Interruption | null => {
  if (record === null) return "fence";
  // The claim is in flight.
  if (record.status === "queued" && record.attempt === run.attempt - 1) return null;
  if (run.isResumed && isParked(record)) return null;
  if (record.attempt !== run.attempt || record.instance_epoch !== epoch) return "fence";
  if (record.status === "cancelled") return "cancel";
  return record.status === "running" || !record.unsettled ? null : "fence";
};
