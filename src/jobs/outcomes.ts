import type { JobStatus } from "../contract/job.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import { retry } from "../lib/wait.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { Outcome } from "./run.ts";
import { settle, type Settled, type Settling } from "./settle.ts";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { temporarySuffix, writeFileAtomic } from "../lib/atomic-file.ts";
import type { Log } from "../lib/log.ts";

type Dependencies = Settling & {
  spool: Spool;
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

/** One file per run under `directory`, durable when written. */
export const openSpool = async (directory: string, log: Log) => {
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const file = ({ id, attempt }: Pick<Spooled, "id" | "attempt">): string =>
    join(directory, `${id}.${attempt}.json`);

  return {
    /** Never rejects: an outcome that cannot be spooled is still in memory. */
    add: async (spooled: Spooled): Promise<void> => {
      await writeFileAtomic(file(spooled), JSON.stringify(spooled)).catch((err: unknown) =>
        log.error({ err, job: spooled.id }, "the outcome of the job cannot be spooled to disk either"),
      );
    },
    drop: (spooled: Pick<Spooled, "id" | "attempt">): Promise<void> => rm(file(spooled), { force: true }),
    /** What an earlier start has left. Skips a torn or foreign file with a warning. */
    all: async (): Promise<Spooled[]> => {
      const found: Spooled[] = [];
      for (const name of await readdir(directory)) {
        const path = join(directory, name);
        if (name.endsWith(temporarySuffix)) await rm(path, { force: true });
        if (!name.endsWith(".json")) continue;
        const spooled = await readFile(path, "utf8").then(parse, () => null);
        if (spooled === null || file(spooled) !== path) log.warn({ file: path }, "spooled outcome skipped");
        else found.push(spooled);
      }
      return found;
    },
  };
};

export type Spool = Awaited<ReturnType<typeof openSpool>>;

const parse = (text: string): Spooled | null => {
  try {
    const { id, attempt, at, outcome } = JSON.parse(text) as Spooled;
    const isWhole = typeof id === "string" && Number.isInteger(attempt) && typeof outcome.kind === "string";
    return isWhole ? { id, attempt, at, outcome } : null;
  } catch {
    return null;
  }
};
