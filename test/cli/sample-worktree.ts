import type { Worktree } from "../../src/contract/worktree.ts";

/** A prepared worktree that is ready, as the service would send it, with these fields changed. */
export const sampleWorktree = (changes: Partial<Worktree> = {}): Worktree => ({
  worktree_id: "0b8e7c4d-5a1f-4c2e-8d3b-9a6f7e5d4c3b",
  repo_url: "https://github.com/acme/app",
  repo_key: "a1b2c3d4e5f6",
  base_ref: "main",
  branch: "service/wt-0b8e7c4d",
  path: "/srv/worktrees/0b8e7c4d-5a1f-4c2e-8d3b-9a6f7e5d4c3b",
  status: "ready",
  job_id: null,
  pod_name: "pod",
  created_at: "2026-05-01T12:00:00.000Z",
  age_hours: 5.25,
  size_bytes: 1_503_238_554,
  measured_at: null,
  pushed: true,
  prepared: true,
  salvage_ref: null,
  cached_clone: null,
  warnings: [],
  error: null,
  ...changes,
});
