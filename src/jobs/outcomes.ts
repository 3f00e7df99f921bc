import type { JobStatus } from "../contract/job.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import { retry } from "../lib/wait.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { Outcome } from "./run.ts";
import { settle, triggers, type Settled, type Settling } from "./settle.ts";
import type { Log } from "../lib/log.ts";
import { openSpool, type Spool } from "../store/spool.ts";

type Dependencies = Settling & {
  spool: Spool<Spooled>;
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
      await deps.spool.add(spooled);
    }
    const written = await retry(() => write(true), { first: 100, longest: 2000, signal: stopping });
    await deps.spool.drop(spooled);
    return written;
  };

  return { write };
};

/** Outcome of a run, on this instance's disk until the store takes it. `at`: when it ended, ISO 8601. */
export type Spooled = { id: string; attempt: number; at: string; outcome: Outcome };

/** Outcomes that the store has not taken yet. */
export const openOutcomeSpool = (directory: string, log: Log): Promise<Spool<Spooled>> =>
  openSpool({
    directory,
    nameOf: ({ id, attempt }) => `${id}.${attempt}`,
    parse: (text) => {
      const { id, attempt, at, outcome } = JSON.parse(text) as Spooled;
      const isWhole =
        typeof id === "string" && Number.isInteger(attempt) && Object.hasOwn(triggers, outcome.kind);
      return isWhole ? { id, attempt, at, outcome } : null;
    },
    what: "the outcome of a job",
    log,
  });
