import { randomUUID } from "node:crypto";
import type { WorktreeRecord } from "../../src/store/worktree-store.ts";

/** A prepared worktree as the service would store it. */
export const sampleWorktree = (over: Partial<WorktreeRecord> = {}): WorktreeRecord => {
  const id = randomUUID();
  return {
    worktree_id: id,
    repo_url: "https://github.com/acme/app",
    repo_key: "0123456789ab",
    base_ref: "main",
    branch: `service/wt-${id.slice(0, 8)}`,
    path: `/worktrees/${id}`,
    status: "preparing",
    pod_name: "pod",
    attempt: 1,
    created_at: "2026-01-01T00:00:00.000Z",
    used_at: null,
    ended_at: null,
    removing: false,
    salvage_ref: null,
    error: null,
    ...over,
  };
};
