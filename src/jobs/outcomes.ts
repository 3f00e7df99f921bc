import type { Job, JobStatus } from "../contract/job.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import { retry } from "../lib/wait.ts";
import { toJob, type JobRecord } from "../store/job-record.ts";
import type { Outcome } from "./execute.ts";
import { settle, type Settled, type Settling } from "./settle.ts";
import type { Spool, Spooled } from "./spool.ts";

type Dependencies = Settling & {
  spool: Spool;
  /** Called after each job that ended here. */
  onEnded: (job: Job) => void;
  redact: Redactor;
  /** Aborted when the service stops: unwritten outcomes then stay in the spool. */
  stopping: AbortSignal;
};

/** Writes outcomes of runs to the store, however long that takes. */
export const createOutcomes = (deps: Dependencies) => {
  const { redact, now, log, stopping } = deps;
  /**
   * Retries while the store is unreachable: an unwritten outcome would be a lost job. When the service stops first,
   * the next start writes it from the spool.
   */
  const write = async (record: JobRecord, { kind, patch }: Outcome): Promise<JobStatus | null> => {
    const { id, attempt } = record;
    const outcome = { kind, patch: redactDeep(patch, redact) };
    const settled = await persist({ id, attempt, at: now().toISOString(), outcome });
    if (settled?.ended !== true) return settled?.record.status ?? null;
    const { record: final } = settled;
    deps.onEnded(toJob(final));
    log.info({ job: id, status: final.status, reason: final.failure_reason ?? undefined }, "job ended");
    return final.status;
  };

  const persist = async (spooled: Spooled): Promise<Settled | null> => {
    const write = (again: boolean) => settle(deps, spooled, { kind: "outcome", ...spooled, again });
    try {
      return await write(false);
    } catch (err) {
      log.warn(
        { err, job: spooled.id },
        "the outcome of the job cannot be written at present; it is kept on disk and tried again",
      );
      await deps.spool.keep(spooled);
    }
    const written = await retry(() => write(true), { first: 100, longest: 2000, signal: stopping });
    await deps.spool.drop(spooled);
    return written;
  };

  return { write };
};
