import { z } from "zod";
import { worktreeRecordFormat, type WorktreeRecord } from "./worktree-store.ts";

const Stored: z.ZodType<WorktreeRecord> = z.object({
  format: z.literal(worktreeRecordFormat),
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

/** The text of a stored worktree as a record of this version; null: it holds none, or that of another id. */
export const parseWorktree = (text: string, id: string): WorktreeRecord | null => {
  try {
    const record = Stored.parse(JSON.parse(text));
    return record.worktree_id === id ? record : null;
  } catch {
    return null;
  }
};

/** Oldest first. */
export const byAge = (a: WorktreeRecord, b: WorktreeRecord): number =>
  Date.parse(a.created_at) - Date.parse(b.created_at) || (a.worktree_id < b.worktree_id ? -1 : 1);
