import type { JobStatus } from "../contract/job.ts";
import type { Log } from "../lib/log.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { JobPatch, JobStore } from "../store/job-store.ts";
import type { Outcome } from "./run.ts";

type Dependencies = {
  store: Pick<JobStore, "update">;
  log: Log;
  /** How long processes have worked on the job, ms: each write has it. */
  workedMs: () => number;
};

/** What the store has not taken yet. */
type Missed = { patch: JobPatch; warnings: readonly string[] };

type Change = JobPatch | ((record: JobRecord) => JobPatch | null);

type Note = { patch?: JobPatch; warning?: string; lazy?: boolean; status?: readonly JobStatus[] };

const nothing: Missed = { patch: {}, warnings: [] };

/** Puts a run's progress on record while it owns the job. What an absent store misses goes with the next write. */
export const createNotes = ({ store, log, workedMs }: Dependencies, record: JobRecord) => {
  const guard = { status: ["running" as const], attempt: record.attempt, epoch: record.instance_epoch };
  const pending = new Set<Promise<unknown>>();
  let missed = nothing;

  const write = async (
    change: Change,
    { lazy = false, status = guard.status }: Pick<Note, "lazy" | "status"> = {},
  ): Promise<JobRecord | null> => {
    const late = missed;
    const next = (current: JobRecord): JobPatch | null => {
      const before = { ...late.patch, warnings: withWarnings(current, late.warnings), worked_ms: workedMs() };
      const patch = typeof change === "function" ? change({ ...current, ...before }) : change;
      return patch === null ? null : { ...before, ...patch };
    };
    const written = await store.update(record.id, { ...guard, status }, next, { lazy });
    if (written !== null && missed === late) missed = nothing;
    return written;
  };

  return {
    write,
    /** Does not wait. A crash may lose what is `lazy` (the default). */
    note: ({ patch = {}, warning, lazy = true, status }: Note): void => {
      const added = warning === undefined ? [] : [warning];
      const change = (record: JobRecord): JobPatch =>
        warning === undefined ? patch : { ...patch, warnings: withWarnings(record, added) };
      const noting = write(change, { lazy, ...(status && { status }) })
        .catch((err: unknown) => {
          missed = { patch: { ...missed.patch, ...patch }, warnings: [...missed.warnings, ...added] };
          log.warn({ err, job: record.id }, "progress of the job is not noted yet; its next note has it too");
        })
        .finally(() => pending.delete(noting));
      pending.add(noting);
    },
    /** The outcome of the run, with the time that it took and what the store has not taken. */
    completed: async (outcome: Outcome): Promise<Outcome> => {
      await Promise.all(pending);
      const { patch, warnings } = missed;
      return { ...outcome, warnings, patch: { ...patch, worked_ms: workedMs(), ...outcome.patch } };
    },
  };
};

/** The warnings of a job with those that it lacks. */
export const withWarnings = (
  { warnings }: Pick<JobRecord, "warnings">,
  more: readonly string[],
): string[] => [...warnings, ...more.filter((warning) => !warnings.includes(warning))];
