import type { AgentEvent, JobEvent, StageEvent } from "../../src/contract/event.ts";
import type { Job } from "../../src/contract/job.ts";

/** A queued job as the service would send it, with these fields changed. */
export const sampleJob = (changes: Partial<Job> = {}): Job => ({
  id: "6f1c1a52-3c1e-4a37-9f0e-0d5f4a1b2c3d",
  repo_url: "https://github.com/acme/app",
  base_ref: "main",
  task: "Fix the failing date test",
  profile: "code",
  status: "queued",
  mode: "fire_and_forget",
  exit_code: null,
  session_id: null,
  pr_url: null,
  output: null,
  error: null,
  created_at: "2026-05-01T12:00:00.000Z",
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
  model: null,
  num_turns: null,
  cost_usd: null,
  usage: null,
  duration_ms: null,
  worktree_id: null,
  salvage_ref: null,
  warnings: [],
  stages: [{ stage: "queued", at: "2026-05-01T12:00:00.000Z", attempt: 0 }],
  ...changes,
});

const begin = Date.parse("2026-05-01T12:00:00.000Z");

/** Time of the sample job's submission, ms since the epoch. */
export const sampleBegin = begin;

/** Event bodies as a log of them, numbered from 1, one second apart. */
export const sampleLog = (...events: (AgentEvent | StageEvent)[]): JobEvent[] =>
  events.map(
    (event, index) =>
      // The order of the log: an event's own fields come last.
      ({
        seq: index + 1,
        at: new Date(begin + index * 1000).toISOString(),
        attempt: 1,
        ...event,
      }) as JobEvent,
  );
