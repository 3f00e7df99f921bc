import { isFinal, jobStatuses, type Job } from "../contract/job.ts";
import type { ProcessIdentity } from "../lib/process/identity.ts";

/** Version of the stored form; a store written by an older version is read by this one. */
export const recordFormat = 2;

/**
 * The stored form of a job: the job as it is sent, plus what only the service needs. The record is the truth about a
 * job; queues, indexes and event logs are derived or beside it.
 */
export type JobRecord = Job & {
  format: typeof recordFormat;
  /** Empty: left out, and the repository has not been looked at. */
  base_ref: string;
  /** What was asked, as far as `Job` does not say it. */
  request: { session_id: string; file_path: string; create_repo: boolean; private: boolean };
  /** Digest of the caller's key and `Idempotency-Key`, and of the body that came with it. */
  idempotency: { key: string; body: string } | null;
  /** Start of the service that claimed the job (a UUID made at each start), or null while queued. */
  instance_epoch: string | null;
  /** Identity of the agent process; with `pid` it tells the process from a later one of the same number. */
  process: ProcessIdentity | null;
  /** Instance that must run it, since its worktree is on that one's disk; null: any. */
  bound_to: string | null;
  /** Whether its profile asked, when it was accepted, to run it again when it is lost; null: accepted by an older version. */
  retry_lost: boolean | null;
  /** Whether the profile, as it was when the job was claimed, may only read; null: not claimed yet, or by an older version. */
  read_only: boolean | null;
  /** The claimed run has not been cleaned up yet; on a final record: its agent or worktree still has to be looked after. */
  unsettled: boolean;
  /** When the job's worktree was removed or may not be any more; null while it stands. */
  worktree_removed_at: string | null;
};

/** What is shown of a `base_ref` that was left out until the repository has been looked at. */
export const presumedBase = "main";

/** The job as the doors send it. */
export const toJob = (record: JobRecord): Job => {
  const {
    format: _f,
    request: _r,
    idempotency: _i,
    instance_epoch: _e,
    process: _p,
    bound_to: _b,
    retry_lost: _l,
    read_only: _o,
    unsettled: _u,
    worktree_removed_at: _w,
    ...job
  } = record;
  return { ...job, base_ref: job.base_ref || presumedBase };
};

/** A record as it was stored, in this or an older format, in the form of this version; null: in none that it knows. */
const upgraded = (stored: { format?: unknown }): JobRecord | null => {
  // What the format says is what was written: the fields of each are those of its version.
  if (stored.format === recordFormat) {
    // Of all fields these alone came without a new format.
    return {
      profile_rule: null,
      read_only: null,
      cached_clone: null,
      ...(stored as Omit<JobRecord, "profile_rule" | "read_only" | "cached_clone">),
    };
  }
  if (stored.format === 1) {
    const added = {
      profile_rule: null,
      bound_to: null,
      retry_lost: null,
      read_only: null,
      cached_clone: null,
    };
    return { ...(stored as JobRecord), ...added, format: recordFormat };
  }
  return null;
};

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export const isJobId = (id: string): boolean => uuid.test(id);

/** The text of a stored job as a record of this version, or why it is none. */
export const parseRecord = (text: string, id: string): JobRecord | string => {
  try {
    return checkRecord(JSON.parse(text), id);
  } catch (error) {
    return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
  }
};

const checkRecord = (value: unknown, id: string): JobRecord | string => {
  if (typeof value !== "object" || value === null) return "it holds no record";
  const record = upgraded(value);
  if (record === null) {
    const { format } = value as { format?: unknown };
    return `its format is ${String(format)}, this version reads 1 to ${recordFormat}`;
  }
  if (record.id !== id) return "it holds another job than its name says";
  if (!jobStatuses.includes(record.status)) return `its status ${String(record.status)} is unknown`;
  if (Number.isNaN(Date.parse(record.created_at))) return "it has no created_at";
  if (isFinal(record.status) && record.ended_at === null) return "it has ended without ended_at";
  return record;
};
