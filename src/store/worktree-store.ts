import type { WorktreeStatus } from "../contract/worktree.ts";

export const worktreeRecordFormat = 1;

/**
 * The stored form of a prepared worktree. Whether a job uses it is told by the jobs, what is on disk by the disk:
 * the record says only what neither of them knows.
 */
export type WorktreeRecord = {
  format: typeof worktreeRecordFormat;
  worktree_id: string;
  repo_url: string;
  repo_key: string;
  /** Empty: left out, and the repository has not been looked at. */
  base_ref: string;
  branch: string;
  path: string;
  status: Exclude<WorktreeStatus, "in_use">;
  /** Instance that made it and on whose disk it is. */
  pod_name: string;
  /** How often its preparation was begun. */
  attempt: number;
  created_at: string;
  /** When it became ready, or its last job ended; null: neither yet. */
  used_at: string | null;
  /** When it failed or was removed. */
  ended_at: string | null;
  /** Its removal was begun: after a crash it is brought to its end. */
  removing: boolean;
  salvage_ref: string | null;
  error: string | null;
};

type WorktreePatch = Partial<Omit<WorktreeRecord, "worktree_id" | "format" | "created_at">>;

/**
 * PORT. Records of prepared worktrees. Every function rejects with `ServiceError("store_unavailable")` when the store
 * cannot do it; nothing is half done then.
 */
export type WorktreeStore = {
  /** Durable when it resolves. */
  create: (record: WorktreeRecord) => Promise<void>;
  /** Null for an id that is unknown or malformed. */
  get: (id: string) => Promise<WorktreeRecord | null>;
  /** All, oldest first. */
  list: () => Promise<WorktreeRecord[]>;
  /**
   * Applies `patch` when the record has one of these statuses and returns the new record; null when it has not, or is
   * unknown. Durable when it resolves.
   */
  update: (
    id: string,
    statuses: readonly WorktreeRecord["status"][],
    patch: WorktreePatch,
  ) => Promise<WorktreeRecord | null>;
  /** Deletes the record. Unknown ids are ignored. */
  remove: (id: string) => Promise<void>;
  close: () => Promise<void>;
};
