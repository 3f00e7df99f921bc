import type { RunTaskInput } from "../contract/job.ts";
import { jobOptions } from "../contract/run-options.ts";
import type { JobRecord } from "../store/job-record.ts";

export type NewRecord = {
  id: string;
  now: Date;
  input: RunTaskInput;
  /** Normalised. */
  repoUrl: string;
  profile: { name: string; model: string; retryLost: boolean; rule: string };
  /** Default: that of the input. */
  baseRef?: string;
  /** Further ones, normalised. Default: those of the input. */
  repositories?: { repo_url: string; base_ref: string }[];
  /** What the caller should know; null: nothing. */
  warning?: string | null;
  ttlSeconds: number;
  idempotency: JobRecord["idempotency"];
  principal: string;
  /** The worktree to run in and its branch; null: the job gets its own. */
  worktree: { id: string | null; branch: string | null } | null;
  /** Where the session to resume began. Default: none is resumed. */
  sessionCwd?: string | null;
  /** Instance on whose disk the worktree is; null: any instance may run the job. */
  boundTo: string | null;
  /** The job whose work is only delivered. Default: none. */
  delivers?: JobRecord | null;
};

const noRepository =
  "No repository was given: the agent works in a directory of its own, and nothing is pushed";

/** The record of a job as it is accepted. */
export const newRecord = (request: NewRecord): JobRecord => ({
  ...workingRecord(request),
  ...(request.delivers ? workOf(request.delivers, request.input) : {}),
});

/** What a job that only delivers takes over: its agent counts as ended. */
const workOf = ({ task, output, summary, options }: JobRecord, { options: own }: RunTaskInput) => ({
  task,
  output,
  options: { ...jobOptions(own), title: own.title ?? options.title },
  checking: { report: { outcome: "changed" as const, summary: summary ?? "", question: "" }, tell: false },
});

const workingRecord = ({
  now,
  input,
  profile,
  worktree,
  warning = null,
  ...fresh
}: NewRecord): JobRecord => ({
  id: fresh.id,
  repo_url: fresh.repoUrl,
  base_ref: fresh.baseRef ?? input.base_ref,
  task: input.task,
  profile: profile.name,
  profile_rule: profile.rule,
  status: "queued",
  mode: "fire_and_forget",
  exit_code: null,
  session_id: input.session_id === "" ? null : input.session_id,
  pr_url: null,
  output: null,
  error: null,
  created_at: now.toISOString(),
  started_at: null,
  ended_at: null,
  ttl_seconds: fresh.ttlSeconds,
  pid: null,
  pod_name: null,
  worktree_path: null,
  job_config_dir: null,
  branch: worktree?.branch ?? null,
  commit_sha: null,
  diff_stat: null,
  outcome: null,
  summary: null,
  waiting: null,
  messages: [],
  held: null,
  files: [],
  repositories: (fresh.repositories ?? input.repositories).map((each) => ({
    ...each,
    path: null,
    branch: null,
    base_sha: null,
    commit_sha: null,
    cached_clone: null,
    pr_url: null,
    error: null,
  })),
  failure_reason: null,
  retryable: null,
  attempt: 0,
  model: input.options.model ?? profile.model,
  num_turns: null,
  cost_usd: null,
  cost_estimated: false,
  usage: null,
  duration_ms: null,
  worktree_id: worktree?.id ?? null,
  salvage_ref: null,
  cached_clone: null,
  warnings: fresh.repoUrl === "" ? [noRepository] : warning === null ? [] : [warning],
  sandbox: null,
  stages: [{ stage: "queued", at: now.toISOString(), attempt: 0 }],
  options: jobOptions(input.options),
  allow_hosts: input.allow_hosts,
  request: {
    session_id: input.session_id,
    file_path: input.file_path,
    create_repo: input.create_repo,
    private: input.private,
  },
  idempotency: fresh.idempotency,
  principal: fresh.principal,
  instance_epoch: null,
  process: null,
  bound_to: fresh.boundTo,
  session_cwd: fresh.sessionCwd ?? null,
  retry_lost: profile.retryLost,
  read_only: null,
  unsettled: false,
  base_sha: null,
  first_head: null,
  setup: null,
  checks: [],
  check_round: 0,
  checking: null,
  asked: null,
  limit: null,
  rested_ms: 0,
  worked_ms: 0,
  resumed_at: null,
  plan_approved: false,
  booked: null,
  worktree_removed_at: null,
});
