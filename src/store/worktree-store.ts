import { z } from "zod";
import type { WorktreeStatus } from "../contract/worktree.ts";
import { isJobId } from "./job-record.ts";
import { parseWith, type Kind, type Records } from "./records.ts";

/**
 * The stored form of a prepared worktree. Job records say whether a job uses it, and the disk says what exists: the record
 * holds only the rest.
 */
export type WorktreeRecord = {
  worktree_id: string;
  repo_url: string;
  repo_key: string;
  /** Empty: not given, and the repository has not been read yet. */
  base_ref: string;
  branch: string;
  path: string;
  status: Exclude<WorktreeStatus, "in_use">;
  /** The instance that made it and has it on its disk. */
  pod_name: string;
  /** How often its preparation was started. */
  attempt: number;
  created_at: string;
  /** When it became ready, or its last job ended; null: neither. */
  used_at: string | null;
  /** When it failed or was removed. */
  ended_at: string | null;
  /** Its removal has started; recovery completes it after a crash. */
  removing: boolean;
  salvage_ref: string | null;
  error: string | null;
};

type WorktreePatch = Partial<Omit<WorktreeRecord, "worktree_id" | "created_at">>;

const Stored: z.ZodType<WorktreeRecord> = z.object({
  worktree_id: z.uuid(),
  repo_url: z.string(),
  repo_key: z.string(),
  base_ref: z.string(),
  branch: z.string(),
  path: z.string(),
  status: z.enum(["preparing", "ready", "failed", "removed"]),
  pod_name: z.string(),
  attempt: z.int(),
  created_at: z.iso.datetime(),
  used_at: z.iso.datetime().nullable(),
  ended_at: z.iso.datetime().nullable(),
  removing: z.boolean(),
  salvage_ref: z.string().nullable(),
  error: z.string().nullable(),
});

/** Index of all, by creation. */
const prepared = "prepared";

/** A file each; or `{prefix:j}:worktree:{id}`. */
export const worktreeKind: Kind<WorktreeRecord> = {
  noun: "worktree",
  key: "worktree",
  isId: isJobId,
  parse: parseWith(
    (value) => Stored.parse(value),
    (record, id) => record.worktree_id === id,
  ),
  entries: ({ created_at }) => [{ index: prepared, at: Date.parse(created_at) }],
  files: { inMemory: () => true },
};

/**
 * Records of prepared worktrees. Every function rejects with `ServiceError("store_unavailable")` when the store
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
   * Applies `patch` when the record has one of these statuses, and returns the new record; otherwise null. Durable when it
   * resolves.
   */
  update: (
    id: string,
    statuses: readonly WorktreeRecord["status"][],
    patch: WorktreePatch,
  ) => Promise<WorktreeRecord | null>;
  /** Unknown ids are ignored. */
  remove: (id: string) => Promise<void>;
  close: () => Promise<void>;
};

export const createWorktreeStore = (records: Records<WorktreeRecord>): WorktreeStore => ({
  create: async (record) => void (await records.change(record.worktree_id, () => record)),
  get: records.get,
  list: async () => {
    const all = await records.list(prepared);
    return (await Promise.all(all.map(({ id }) => records.get(id)))).filter((record) => record !== null);
  },
  update: async (id, statuses, patch) => {
    const { after, changed } = await records.change(id, (current) =>
      current !== null && statuses.includes(current.status) ? { ...current, ...patch } : undefined,
    );
    return changed ? after : null;
  },
  remove: async (id) => void (await records.change(id, () => null)),
  close: records.close,
});
