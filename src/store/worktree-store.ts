import { z } from "zod";
import { isJobId } from "./job-record.ts";
import { parseWith, type Kind, type Records } from "./records.ts";

/**
 * The stored form of a prepared worktree. Job records say whether a job uses it, and the disk says what exists: the record
 * holds only the rest.
 */
const WorktreeRecord = z.object({
  worktree_id: z.uuid(),
  repo_url: z.string(),
  repo_key: z.string(),
  /** Empty: not given, and the repository has not been read yet. */
  base_ref: z.string(),
  branch: z.string(),
  path: z.string(),
  status: z.enum(["preparing", "ready", "failed", "removed"]),
  /** The instance that made it and has it on its disk. */
  pod_name: z.string(),
  /** How often its preparation was started. */
  attempt: z.int(),
  created_at: z.iso.datetime(),
  /** When it became ready, or its last job ended; null: neither. */
  used_at: z.iso.datetime().nullable(),
  /** When it failed or was removed. */
  ended_at: z.iso.datetime().nullable(),
  /** Its removal has started; recovery completes it after a crash. */
  removing: z.boolean(),
  salvage_ref: z.string().nullable(),
  error: z.string().nullable(),
});
export type WorktreeRecord = z.infer<typeof WorktreeRecord>;

type WorktreePatch = Partial<Omit<WorktreeRecord, "worktree_id" | "created_at">>;

/** Index of all, by creation. */
const prepared = "prepared";

/** A file each; or `{prefix:j}:prepared:{id}`. */
export const worktreeKind: Kind<WorktreeRecord> = {
  noun: "worktree",
  key: "prepared",
  isId: isJobId,
  parse: parseWith(WorktreeRecord, (record, id) => record.worktree_id === id),
  entries: ({ created_at }) => [{ index: prepared, at: Date.parse(created_at) }],
  inMemory: () => true,
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
