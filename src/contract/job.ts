import { z } from "zod";
import { Check } from "./check.ts";
import { JobOptions, RunOptions } from "./run-options.ts";
import { FurtherRepository, JobRepository } from "./job-repository.ts";
import { JobSetup } from "./setup.ts";

/** An instant, ISO 8601 in UTC with milliseconds. */
export const Instant = z.string().meta({ format: "date-time", example: "2026-03-02T09:15:00.000Z" });

export const jobStatuses = ["queued", "running", "succeeded", "failed", "cancelled", "expired"] as const;
export const JobStatus = z.enum(jobStatuses).meta({ id: "JobStatus", example: "queued" });
export type JobStatus = z.infer<typeof JobStatus>;

export const finalStatuses: readonly JobStatus[] = ["succeeded", "failed", "cancelled", "expired"];
export const isFinal = (status: JobStatus): boolean => finalStatuses.includes(status);

export const FailureReason = z
  .enum([
    "agent_error",
    "agent_exit",
    "api_error",
    "rate_limited",
    "auth",
    "max_turns",
    "budget",
    "timeout",
    "stalled",
    "instance_lost",
    "clone_failed",
    "worktree_failed",
    "profile_invalid",
    "mcp_config_invalid",
    "cli_not_found",
    "sandbox_failed",
    "setup_failed",
    "push_failed",
    "pr_failed",
    "needs_input",
    "checks_failed",
    "internal",
  ])
  .meta({ id: "FailureReason" });
export type FailureReason = z.infer<typeof FailureReason>;

/** What came of a job. What git shows decides; what the agent says comes second. */
export const Outcome = z
  .enum(["changed", "no_change", "answered", "question", "checks_failed", "plan"])
  .meta({ id: "Outcome", example: "changed" });
export type Outcome = z.infer<typeof Outcome>;

/** What an agent says has come of its work. `question`: empty unless it has one. */
export type Report = { outcome: Outcome; summary: string; question: string };

/** The steps of a job in their order; a job passes each at most once per attempt. */
export const StageName = z
  .enum([
    "queued",
    "claimed",
    "fetched",
    "worktree_ready",
    "setup",
    "agent_started",
    "first_output",
    "result",
    "checks",
    "pushed",
    "pull_request",
    "ended",
  ])
  .meta({ id: "StageName", example: "queued" });
export type StageName = z.infer<typeof StageName>;

const Stage = z
  .object({ stage: StageName, at: Instant, attempt: z.int().meta({ example: 0 }) })
  .meta({ id: "Stage" });
type Stage = z.infer<typeof Stage>;

export const Usage = z
  .object({
    input_tokens: z.int(),
    output_tokens: z.int(),
    cache_creation_input_tokens: z.int(),
    cache_read_input_tokens: z.int(),
  })
  .meta({ id: "Usage" });
export type Usage = z.infer<typeof Usage>;

/** Whether any tokens were used, as far as is known. */
export const hasTokens = (usage: Usage | null): usage is Usage =>
  usage !== null && Object.values(usage).some((count) => count > 0);

/** Null: nothing is known. */
export const addUsage = (a: Usage | null, b: Usage | null): Usage | null =>
  a === null || b === null
    ? (a ?? b)
    : {
        input_tokens: a.input_tokens + b.input_tokens,
        output_tokens: a.output_tokens + b.output_tokens,
        cache_creation_input_tokens: a.cache_creation_input_tokens + b.cache_creation_input_tokens,
        cache_read_input_tokens: a.cache_read_input_tokens + b.cache_read_input_tokens,
      };

/** What a sandbox refused. */
export const Denied = z
  .object({
    kind: z.enum(["host", "path"]),
    name: z.string().meta({ example: "registry.example.com:443" }),
    count: z.int().meta({ example: 3, description: "How often" }),
    allow: z.string().meta({
      example: "registry.example.com",
      description: "What to name to allow it; empty: nothing does",
    }),
  })
  .meta({ id: "Denied" });
export type Denied = z.infer<typeof Denied>;

const JobSandbox = z
  .object({
    mode: z.enum(["off", "bwrap", "landlock"]),
    network: z
      .enum(["none", "model", "hosts", "open"])
      .describe("What the agent can reach: nothing, the model, hosts that are named too, everything"),
    limits: z.enum(["cgroup", "rlimit", "none"]).describe("What limits memory and processes"),
    denied: z.array(Denied),
  })
  .meta({ id: "JobSandbox" });
export type JobSandbox = z.infer<typeof JobSandbox>;

/** A question of the agent's, as it asks it. */
export const Question = z
  .object({
    question: z.string().meta({ example: "Which database?" }),
    header: z.string().meta({ example: "Database", description: "A word or two on what it is about" }),
    options: z.array(
      z.object({
        label: z.string().meta({ example: "SQLite" }),
        description: z.string().meta({ example: "A file" }),
      }),
    ),
    multi_select: z.boolean().meta({ description: "Whether several options may be chosen", example: false }),
  })
  .meta({ id: "Question" });
export type Question = z.infer<typeof Question>;

/** What a running job waits for. */
export const Waiting = z
  .object({
    kind: z
      .enum(["question", "plan", "limit", "model"])
      .describe(
        "limit: a usage limit of the model is reached; model: the model did not answer; nobody is asked then",
      ),
    id: z
      .string()
      .meta({ description: "Of this question or plan", example: "toolu_01A09q90qw90lq917835lq9" }),
    questions: z.array(Question).describe("Only of a question"),
    plan: z.string().nullable().describe("The plan to be approved, at most 51,200 bytes"),
    asked_at: Instant,
    until: Instant.describe(
      "When the job fails if nobody has answered; of limit and model: when it goes on by itself",
    ),
  })
  .meta({ id: "Waiting" });
export type Waiting = z.infer<typeof Waiting>;

/** When the agent takes up a message: as soon as it can, after it has cut off what it does, or after all else. */
export const MessageWhen = z.enum(["next", "now", "later"]);

/** What the user says to the agent of a job that has not ended. */
export const Message = z
  .object({
    id: z.string().meta({ format: "uuid", example: "7c2f1f0e-3b5a-4c58-9d2b-0a4f5d1c9e11" }),
    text: z.string().meta({ example: "Keep the old endpoint, too" }),
    when: MessageWhen.meta({ example: "next" }),
    status: z.enum(["queued", "taken", "withdrawn"]).meta({
      example: "queued",
      description: "taken: the agent has it; withdrawn: it was taken back before",
    }),
    at: Instant.describe("When the service got it"),
  })
  .meta({ id: "Message" });
export type Message = z.infer<typeof Message>;

/** Whether it waits for a person. */
export const asksPerson = (waiting: Waiting | null | undefined): waiting is Waiting =>
  waiting?.kind === "question" || waiting?.kind === "plan";

/** A file that the agent left for people. */
export const JobFile = z
  .object({
    path: z.string().meta({ example: "report.pdf", description: "Below .svc/out" }),
    bytes: z.int().meta({ example: 48_213 }),
  })
  .meta({ id: "JobFile" });
export type JobFile = z.infer<typeof JobFile>;

/** Why a queued job is not begun although there is room. */
const Held = z
  .object({ reason: z.literal("limit"), until: Instant.describe("When it can begin") })
  .meta({ id: "Held" });
export const Job = z
  .object({
    id: z.string().meta({ format: "uuid", example: "0b0f4a52-6d0c-4d6e-9a77-3d1f1a3c9b10" }),
    repo_url: z.string().meta({ example: "https://github.com/acme/app" }),
    base_ref: z.string().meta({
      example: "main",
      description: "Branch or tag the work is based on; main until the repository is read if none was given",
    }),
    task: z.string().meta({ example: "Fix the failing date test" }),
    profile: z.string().meta({ example: "code" }),
    profile_rule: z.string().meta({
      example: "SERVICE_DEFAULT_PROFILE",
      description: "Why this profile: requested, the match rule that applied, or SERVICE_DEFAULT_PROFILE",
    }),
    status: JobStatus,
    mode: z.literal("fire_and_forget"),
    exit_code: z.int().nullable(),
    session_id: z.string().nullable(),
    pr_url: z.string().nullable(),
    output: z.string().nullable().describe("The agent's final text, at most 51,200 bytes"),
    error: z.string().nullable().describe("What went wrong, at most 10,240 bytes"),
    created_at: Instant,
    started_at: Instant.nullable(),
    ended_at: Instant.nullable(),
    ttl_seconds: z.int().meta({ example: 86_400 }),
    pid: z.int().nullable(),
    pod_name: z.string().nullable(),
    worktree_path: z.string().nullable(),
    job_config_dir: z.string().nullable(),
    branch: z.string().nullable(),
    commit_sha: z.string().nullable(),
    diff_stat: z
      .object({ files: z.int(), insertions: z.int(), deletions: z.int() })
      .nullable()
      .describe("What the branch changes over its base, with those of further repositories"),
    outcome: Outcome.nullable().describe(
      "What came of it: changed, no_change, answered, question (the agent cannot go on without an answer), checks_failed, or plan (it was not approved); null: it has not ended, or its agent did not come to an end",
    ),
    summary: z
      .string()
      .nullable()
      .meta({ description: "What the agent says it did, at most 2,048 bytes", example: "Fixed the test." }),
    setup: JobSetup.nullable().describe(
      "How its worktree was made ready for the agent; null: there is nothing to do, or it was not yet done",
    ),
    checks: z
      .array(Check)
      .describe("What the service ran on the work when its agent had ended; empty: nothing"),
    waiting: Waiting.nullable().describe(
      "What the running job waits for, until POST /jobs/{id}/answer, the reset of a usage limit, or the model is asked again; null: for nothing",
    ),
    held: Held.nullable().describe(
      "Why the queued job is not begun: limit: other jobs wait for the usage limit of its credential; null: it waits for its turn",
    ),
    messages: z.array(Message).describe("What was said to its agent while it ran, in order"),
    files: z
      .array(JobFile)
      .describe("What lay in .svc/out of the worktree when its agent had ended; GET /jobs/{id}/files/{path}"),
    repositories: z
      .array(JobRepository)
      .describe("Further repositories, without repo_url; failed with push_failed when one has an error"),
    failure_reason: FailureReason.nullable(),
    retryable: z.boolean().nullable(),
    attempt: z.int().meta({ description: "0 until the job is claimed for the first time", example: 0 }),
    model: z.string().nullable().meta({ example: "sonnet" }),
    num_turns: z.int().nullable(),
    cost_usd: z.number().nullable().describe("USD, of all attempts; null: not known"),
    cost_estimated: z.boolean().meta({
      example: false,
      description:
        "Whether cost_usd, or a part of it, was reckoned from tokens: a run ended without a result",
    }),
    usage: Usage.nullable().describe("Of all attempts"),
    duration_ms: z.int().nullable().describe("How long processes worked on it"),
    worktree_id: z.string().nullable(),
    salvage_ref: z
      .string()
      .nullable()
      .describe(
        "Ref in cached_clone with the work that was not on a pushed branch when the job ended without success or its worktree was removed",
      ),
    cached_clone: z
      .string()
      .nullable()
      .describe(
        "Git directory on the instance that has salvage_ref, and the branch if it is not pushed; null: nothing is checked out yet",
      ),
    warnings: z.array(z.string()).describe("What the service left out or could not do, a sentence each"),
    sandbox: JobSandbox.nullable().describe(
      "What the agent is kept in, and what it was refused; null: it has not started",
    ),
    stages: z.array(Stage).describe("When the job passed each step, in order"),
    options: JobOptions.describe("What the submission changed for this job alone"),
    allow_hosts: z.array(z.string()).describe("Hosts that the submission named"),
  })
  .meta({ id: "Job" });
export type Job = z.infer<typeof Job>;

/** Until when it waits for a usage limit, parked or held; null: it does not. */
export const limitedUntil = ({ waiting, held }: Pick<Job, "waiting" | "held">): string | null =>
  held?.until ?? (waiting?.kind === "limit" ? waiting.until : null);

/** Input of a submission, after defaults. An empty string means "not given". */
export const RunTaskInput = z.strictObject({
  task: z
    .string()
    .min(1, "must not be empty")
    .max(100_000, "must have at most 100,000 characters")
    .refine((task) => task.trim() !== "", "must not be blank")
    .meta({ description: "What the agent should do, in plain words", example: "Fix the failing date test" }),
  repo_url: z.string().max(2048).default("").meta({
    description: "Git repository; empty: that of worktree_id or session_id, else an empty directory",
    example: "https://github.com/acme/app",
  }),
  profile: z
    .string()
    .max(200)
    .default("")
    .describe("Profile name; empty or auto: the first whose match rules apply, else SERVICE_DEFAULT_PROFILE"),
  base_ref: z
    .string()
    .max(255)
    .default("")
    .describe(
      "Branch or tag the work is based on; empty: SERVICE_BASE_REF (main) where the repository has it, else its default branch",
    ),
  session_id: z.string().max(200).default("").describe("Agent session to resume"),
  file_path: z
    .string()
    .max(4096)
    .default("")
    .describe("MCP config file under the shared file system, merged into the job's configuration"),
  create_repo: z.boolean().default(false).describe("Create the repository on the git host if it is missing"),
  private: z.boolean().default(true).describe("Whether a repository that is created is private"),
  worktree_id: z
    .string()
    .max(200)
    .default("")
    .describe("Worktree to run in: one from prepare_worktree, or that of an earlier job"),
  allow_hosts: z
    .array(z.string().max(300))
    .max(100)
    .default([])
    .meta({
      description: "Hosts that the agent may reach besides; the profile must say allow_host: true",
      example: ["registry.example.com"],
    }),
  repositories: z
    .array(FurtherRepository)
    .max(8)
    .default([])
    .meta({
      description: "Further repositories, each with a branch and a pull request of its own; need repo_url",
      example: [{ repo_url: "https://github.com/acme/lib", base_ref: "main" }],
    }),
  options: RunOptions.prefault({}).describe("Changes for this job alone"),
  wait: z
    .boolean()
    .default(false)
    .describe(
      "Answer only when the job has ended or waits for a person; it continues if the caller disconnects",
    ),
});
export type RunTaskInput = z.infer<typeof RunTaskInput>;

/** Replaces the examples of the fields in the example of a job that has ended. */
export const endedJob = {
  status: "succeeded",
  exit_code: 0,
  session_id: "5a4d7a7e-0b44-4a3c-8a1e-6a5f6d8c2f11",
  pr_url: "https://github.com/acme/app/pull/17",
  output: "The test compared local times; it now compares instants.",
  outcome: "changed",
  summary: "The test compared local times; it now compares instants.",
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
    {},
    { stage: "claimed", at: "2026-03-02T09:15:01.000Z", attempt: 1 },
    { stage: "ended", at: "2026-03-02T09:17:31.000Z", attempt: 1 },
  ],
};

export const JobId = z
  .string()
  .meta({ description: "UUID of the job, or at least four digits it begins with", example: "0b0f4a52" });

export const JobAnswer = z.object({ success: z.literal(true), job: Job });
