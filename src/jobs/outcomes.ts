import type { Log } from "../lib/log.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import { retry } from "../lib/wait.ts";
import type { JobRecord } from "../store/job-record.ts";
import { openSpool, type Spool } from "../store/spool.ts";
import type { Outcome } from "./run.ts";
import { settle, triggers, type Settled, type Settling } from "./settle.ts";

type Dependencies = Settling & { spool: Spool<Spooled>; redact: Redactor };

/**
 * Writes the outcome of a run to the store and resolves to the job; null: unknown. Retries while the store is unreachable;
 * when the service stops first (`stopping`), the next start writes it from the spool.
 */
export const writeOutcome = async (
  deps: Dependencies,
  { id, attempt, instance_epoch: epoch }: JobRecord,
  given: Outcome,
  stopping: AbortSignal,
): Promise<JobRecord | null> => {
  const outcome = { ...given, patch: redactDeep(given.patch, deps.redact) };
  const spooled = { id, attempt, epoch, at: deps.now().toISOString(), outcome };
  const write = (again: boolean) => settle(deps, spooled, { kind: "outcome", ...spooled, again });
  const settled = await write(false).catch(async (err: unknown): Promise<Settled | null> => {
    const said = "the outcome of the job cannot be written at present; it is kept on disk and tried again";
    deps.log.warn({ err, job: id }, said);
    await deps.spool.add(spooled);
    const written = await retry(() => write(true), { first: 100, longest: 2000, signal: stopping });
    await deps.spool.drop(spooled);
    return written;
  });
  if (settled?.ended === true) {
    const { status, failure_reason } = settled.record;
    deps.log.info({ job: id, status, reason: failure_reason ?? undefined }, "job ended");
  }
  return settled?.record ?? null;
};

/** Outcome of a run, on this instance's disk until the store takes it. `at`: when it ended, ISO 8601. */
export type Spooled = { id: string; attempt: number; at: string; epoch: string | null; outcome: Outcome };

/** Outcomes that the store has not taken yet. */
export const openOutcomeSpool = (directory: string, log: Log): Promise<Spool<Spooled>> =>
  openSpool({ directory, nameOf, parse: parseSpooled, noun: "outcome of a job", log });

const nameOf = ({ id, attempt }: Spooled): string => `${id}.${attempt}`;

const parseSpooled = (text: string, name: string): Spooled | string => {
  try {
    const { id, attempt, at, epoch, outcome } = JSON.parse(text) as Spooled;
    const spooled = { id, attempt, at, epoch, outcome };
    if (nameOf(spooled) === name && Object.hasOwn(triggers, outcome.kind)) return spooled;
  } catch {
    // Torn.
  }
  return "it holds no outcome";
};
