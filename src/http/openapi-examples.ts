import type { z } from "zod";
import type { Completion } from "../contract/completion.ts";
import type { Job } from "../contract/job.ts";
import type { Operations } from "../contract/operations.ts";
import type { Worktree } from "../contract/worktree.ts";

const completion: Completion = {
  uuid: "ticket-4711",
  status: "completed",
  result: "The nightly build fails since the clock change; the fix is on a branch.",
  session_id: "8c1f0d6e-51f3-4f0e-9d52-7be0f9f5c0aa",
  cost_usd: 0.018,
  duration_ms: 21_400,
  num_turns: 4,
  is_error: false,
  created_at: "2026-03-02T09:15:00.000Z",
  started_at: "2026-03-02T09:15:00.020Z",
  ended_at: "2026-03-02T09:15:21.420Z",
  usage: null,
  model: "sonnet",
  error: null,
  error_code: null,
  meta: "{}",
};

type Examples = {
  [Name in keyof Operations]: {
    input: z.input<Operations[Name]["input"]>;
    output: z.output<Operations[Name]["output"]>;
  };
};

const created = "2026-03-02T09:15:00.000Z";

const queued: Job = {
  id: "0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10",
  repo_url: "https://github.com/acme/app",
  base_ref: "main",
  task: "Fix the failing date test",
  profile: "code",
  profile_rule: "SERVICE_DEFAULT_PROFILE",
  status: "queued",
  mode: "fire_and_forget",
  exit_code: null,
  session_id: null,
  pr_url: null,
  output: null,
  error: null,
  created_at: created,
  started_at: null,
  ended_at: null,
  ttl_seconds: 86_400,
  pid: null,
  pod_name: null,
  worktree_path: null,
  job_config_dir: null,
  branch: null,
  commit_sha: null,
  diff_stat: null,
  failure_reason: null,
  retryable: null,
  attempt: 0,
  model: "sonnet",
  num_turns: null,
  cost_usd: null,
  usage: null,
  duration_ms: null,
  worktree_id: null,
  salvage_ref: null,
  cached_clone: null,
  warnings: [],
  stages: [{ stage: "queued", at: created, attempt: 0 }],
};

const succeeded: Job = {
  ...queued,
  status: "succeeded",
  exit_code: 0,
  session_id: "5a4d7a7e-0b44-4a3c-8a1e-6a5f6d8c2f11",
  pr_url: "https://github.com/acme/app/pull/17",
  output: "The test compared local times; it now compares instants.",
  started_at: "2026-03-02T09:15:01.000Z",
  ended_at: "2026-03-02T09:17:31.000Z",
  pod_name: "build-1",
  branch: "service/0b0f4a52",
  commit_sha: "9f2c1e7b5a3d4f60718293a4b5c6d7e8f9012345",
  diff_stat: { files: 1, insertions: 3, deletions: 2 },
  attempt: 1,
  num_turns: 6,
  cost_usd: 0.042,
  duration_ms: 150_000,
  stages: [
    { stage: "queued", at: created, attempt: 0 },
    { stage: "claimed", at: "2026-03-02T09:15:01.000Z", attempt: 1 },
    { stage: "ended", at: "2026-03-02T09:17:31.000Z", attempt: 1 },
  ],
};

const worktree: Worktree = {
  worktree_id: "6f1d2c3b-4a59-4e68-8776-95a4b3c2d1e0",
  repo_url: queued.repo_url,
  repo_key: "3f5a0c9d1e2b",
  base_ref: "main",
  branch: "service/wt-6f1d2c3b",
  path: "/var/lib/svc/worktrees/6f1d2c3b-4a59-4e68-8776-95a4b3c2d1e0",
  status: "ready",
  job_id: null,
  pod_name: "build-1",
  created_at: created,
  age_hours: 0.25,
  size_bytes: 4_210_688,
  pushed: true,
  prepared: true,
  salvage_ref: null,
  cached_clone: "/var/lib/svc/repos/3f5a0c9d1e2b/repo.git",
  warnings: [],
  error: null,
};

/** What requests and answers look like; a test holds them against the schemas. */
export const examples: Examples = {
  run_task: {
    input: { task: queued.task, repo_url: queued.repo_url },
    output: { success: true, job: queued },
  },
  get_job: { input: { job_id: succeeded.id }, output: { success: true, job: succeeded } },
  list_jobs: {
    input: { limit: 1 },
    output: { success: true, count: 1, jobs: [succeeded], next_cursor: null },
  },
  wait_for_job: {
    input: { job_id: succeeded.id, timeout: 45 },
    output: { success: true, job: succeeded },
  },
  cancel_job: {
    input: { job_id: queued.id },
    output: { success: true, job: { ...queued, status: "cancelled", ended_at: "2026-03-02T09:15:02.000Z" } },
  },
  list_profiles: {
    input: {},
    output: {
      success: true,
      count: 1,
      profiles: [
        {
          name: "review",
          description: "Reads and reports, changes nothing",
          model: "haiku",
          max_turns: 20,
          worktree: true,
          auto_pr: false,
          permission_mode: "dontAsk",
          source: "bundled",
          error: null,
        },
      ],
    },
  },
  prepare_worktree: {
    input: { repo_url: worktree.repo_url },
    output: { success: true, worktree_id: worktree.worktree_id, worktree },
  },
  get_worktree: { input: { worktree_id: worktree.worktree_id }, output: { success: true, worktree } },
  list_worktrees: { input: {}, output: { success: true, count: 1, worktrees: [worktree] } },
  cleanup_worktrees: {
    input: { max_age_hours: 24, force: true },
    output: {
      success: true,
      removed: 1,
      dry_run: false,
      results: [
        {
          path: worktree.path,
          worktree_id: worktree.worktree_id,
          success: true,
          removed: true,
          error: null,
          cancelled_jobs: [],
          size_bytes: worktree.size_bytes,
          salvage_ref: `refs/service/salvage/${worktree.worktree_id}`,
        },
      ],
    },
  },
  get_disk_usage: {
    input: {},
    output: {
      success: true,
      min_free_bytes: 1_073_741_824,
      volumes: [
        {
          path: "/var/lib/svc/repos",
          purpose: "repositories",
          free_bytes: 52_613_349_376,
          total_bytes: 107_374_182_400,
        },
      ],
      repositories: [
        {
          repo_key: "3f5a0c9d1e2b",
          repo_url: worktree.repo_url,
          cache_bytes: 18_874_368,
          worktrees: 1,
          worktree_bytes: 4_210_688,
          kept: [],
        },
      ],
    },
  },
  list_instances: {
    input: {},
    output: {
      success: true,
      count: 1,
      queue: { waiting: 2, running: 3, oldest_wait_seconds: 41.5 },
      lost: 0,
      recovered: 1,
      instances: [
        {
          name: "build-1",
          version: "1.0.0",
          started_at: "2026-03-02T08:00:00.000Z",
          running: 3,
          max_parallel_jobs: 3,
          turns: 2,
          draining: false,
        },
      ],
    },
  },
  agent_completions: {
    input: { message: "Why does the nightly build fail?", uuid: completion.uuid },
    output: {
      success: true,
      status: completion.status,
      uuid: completion.uuid,
      poll_url: null,
      result: completion.result,
      session_id: completion.session_id,
      cost_usd: completion.cost_usd,
      duration_ms: completion.duration_ms,
      num_turns: completion.num_turns,
      is_error: false,
      usage: null,
      error: null,
      code: null,
      completion,
    },
  },
  get_completion: { input: { uuid: completion.uuid }, output: { success: true, completion } },
  list_completions: { input: { limit: 1 }, output: { success: true, count: 1, completions: [completion] } },
  cancel_completion: { input: { uuid: completion.uuid }, output: { success: true, completion } },
};

const stage = { seq: 1, at: created, attempt: 0, type: "stage", stage: "queued", detail: null };

export const streamExample = `id: 1\nevent: stage\ndata: ${JSON.stringify(stage)}\n\n`;
