import type { JobStatus } from "../contract/job.ts";
import type { JobRecord } from "./job-record.ts";

/**
 * PORT. Records of jobs. Every change of an existing record is one compare-and-set: it happens only when the record
 * still has one of the statuses (and the attempt) that the writer saw, so a later or frozen writer can never
 * overwrite a final state.
 *
 * Every function rejects with `ServiceError("store_unavailable")` when the store cannot do it (disk full, read-only,
 * gone); nothing is half done then.
 */
export type JobStore = {
  /** Durable when it resolves. With an idempotency key that is known already, stores nothing and returns that record. */
  create: (record: JobRecord) => Promise<{ record: JobRecord; created: boolean }>;
  /** The whole record, or null for an id that is unknown or malformed. */
  get: (id: string) => Promise<JobRecord | null>;
  /** Newest first by `created_at`, then id. `cursor` is the `next` of the page before. */
  list: (query: ListQuery) => Promise<{ records: JobRecord[]; next: string | null }>;
  /**
   * Applies `patch` when the guard holds and returns the new record; returns null when it does not hold or the job is
   * unknown. Durable when it resolves, unless `lazy`: then it is durable with the next write of the job at the latest
   * (for progress that a crash may lose).
   */
  update: (
    id: string,
    guard: UpdateGuard,
    patch: JobPatch,
    options?: { lazy?: boolean },
  ) => Promise<JobRecord | null>;
  /** Deletes a record in a final state. Unknown ids are ignored. */
  remove: (id: string) => Promise<void>;
  /** Ids of these statuses, oldest first. */
  ids: (status: JobStatus) => Promise<string[]>;
  /** Ids of jobs whose run has not been cleaned up (`unsettled`), oldest first. */
  unsettled: () => Promise<string[]>;
  /** How many jobs there are of each status. */
  counts: () => Promise<Record<JobStatus, number>>;
  /** The newest job that ran this agent session. */
  findBySession: (sessionId: string) => Promise<JobRecord | null>;
  /** The jobs that have used this worktree, or wait for it, oldest first. */
  usesOfWorktree: (worktreeId: string) => Promise<WorktreeUse[]>;
  /** Ids of jobs whose time is over at `now` (ms since the epoch): queued ones past their TTL, final ones past theirs. */
  due: (now: number) => Promise<{ expired: string[]; removable: string[] }>;
  /** Ids of settled jobs that ended before `endedBefore` (ms) and whose worktree still stands. */
  worktreesDue: (endedBefore: number) => Promise<string[]>;
  /** Whether a stored job's id begins so. */
  hasPrefix: (prefix: string) => boolean;
  /** Rejects when nothing can be stored at present. */
  check: () => Promise<void>;
  close: () => Promise<void>;
};

/** `unsettled`: the job may have ended, but its run has not been cleaned up. `ended` in ms since the epoch. */
export type WorktreeUse = { jobId: string; status: JobStatus; unsettled: boolean; ended: number | null };

export type ListQuery = { limit: number; status: JobStatus | ""; cursor: string };
type UpdateGuard = { status: readonly JobStatus[]; attempt?: number };
export type JobPatch = Partial<Omit<JobRecord, "id" | "format" | "created_at" | "idempotency">>;
