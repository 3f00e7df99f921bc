import type { JobStatus } from "../contract/job.ts";
import type { JobRecord } from "./job-record.ts";

/**
 * PORT. Records of jobs. Every change of an existing record is one compare-and-set: it happens only when the record
 * still has one of the statuses (and the attempt and the epoch) that the writer saw, so a later or frozen writer can never
 * overwrite a final state.
 *
 * Every function rejects with `ServiceError("store_unavailable")` when the store cannot do it (disk full, read-only,
 * gone); nothing is half done then.
 */
export type JobStore = {
  /**
   * Durable when it resolves. With an idempotency key that is known already, stores nothing and returns that record.
   * Refuses when as many as `maxQueued` jobs wait already, or when another job's id begins with the same eight digits.
   */
  create: (record: JobRecord, limits?: { maxQueued: number }) => Promise<Creation>;
  /** The whole record, or null for an id that is unknown or malformed. */
  get: (id: string) => Promise<JobRecord | null>;
  /** Newest first by `created_at`, then id. `cursor` is the `next` of the page before. */
  list: (query: ListQuery) => Promise<{ records: JobRecord[]; next: string | null }>;
  /**
   * Applies `patch`, or what it makes of the record as it is then, when the guard holds and returns the new record; returns null when it does not hold or the job is
   * unknown. Durable when it resolves, unless `lazy`: then it is durable with the next write of the job at the latest
   * (for progress that a crash may lose).
   */
  update: (
    id: string,
    guard: UpdateGuard,
    patch: JobPatch | ((record: JobRecord) => JobPatch),
    options?: { lazy?: boolean },
  ) => Promise<JobRecord | null>;
  /** Deletes a record in a final state. Unknown ids are ignored. */
  remove: (id: string) => Promise<void>;
  /** Ids of this status, oldest first, at most `limit`; the `from` oldest are left out. */
  ids: (status: JobStatus, limit?: number, from?: number) => Promise<string[]>;
  /** Jobs whose run has not been cleaned up (`unsettled`), of all instances, oldest first. */
  unsettled: () => Promise<UnsettledRun[]>;
  /** How many jobs there are of each status. */
  counts: () => Promise<Record<JobStatus, number>>;
  /** The newest job that ran this agent session. */
  findBySession: (sessionId: string) => Promise<JobRecord | null>;
  /** Ids of the queued jobs that resume this agent session, oldest first. */
  queuedInSession: (sessionId: string) => Promise<string[]>;
  /** The jobs that have used this worktree, or wait for it, oldest first. */
  usesOfWorktree: (worktreeId: string) => Promise<WorktreeUse[]>;
  /**
   * Ids of jobs whose time is over at `now` (ms since the epoch): queued ones past their TTL, settled final ones past
   * theirs. Not all at once when they are many.
   */
  due: (now: number) => Promise<{ expired: string[]; removable: string[] }>;
  /** Ids of settled jobs that ended before `endedBefore` (ms) and whose worktree still stands on this instance's disk. */
  worktreesDue: (endedBefore: number) => Promise<string[]>;
  /** Counts a job that was lost, or recovered, with its instance. */
  count: (what: keyof Tally) => Promise<void>;
  /** All that was counted: in files since this start, in a key-value store ever since. */
  tally: () => Promise<Tally>;
  /** Rejects when nothing can be stored at present. */
  check: () => Promise<void>;
  close: () => Promise<void>;
};

/** `full`: too many wait; `prefix`: another job's id begins with the same eight digits, which branches are named by. */
export type Creation = { record: JobRecord; created: boolean } | { refused: "full" | "prefix" };

/** Where a run that has not been cleaned up is, or was. */
export type UnsettledRun = { id: string; podName: string; epoch: string };

/** `lost`: failed with their instance; `recovered`: queued again after the loss of one. */
type Tally = { lost: number; recovered: number };

/** `unsettled`: the job may have ended, but its run has not been cleaned up. `ended` in ms since the epoch. */
export type WorktreeUse = { jobId: string; status: JobStatus; unsettled: boolean; ended: number | null };

export type ListQuery = { limit: number; status: JobStatus | ""; cursor: string };
/** `epoch`: the start of the service whose run it is. */
export type UpdateGuard = { status: readonly JobStatus[]; attempt?: number; epoch?: string | null };
export type JobPatch = Partial<Omit<JobRecord, "id" | "format" | "created_at" | "idempotency">>;
