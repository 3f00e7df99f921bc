import type { FailureReason, Job } from "../../contract/job.ts";
import type { Layout } from "../print.ts";
import { aligned, factLines, type Fact, cost, counted, duration } from "./columns.ts";
import { flagWords, oneLine, optional, sanitise, shellWord } from "./sanitise.ts";
import { paintStatus } from "./status.ts";

/** Everything about a job, as `svc job` shows it. */
export const jobPage = (job: Job, { now, ...layout }: Layout & { now: number }): string => {
  const { paint } = layout;
  const facts: Fact[] = [
    ["ID", job.id],
    ...outcomeFacts(job, layout),
    ["Profile", profile(job)],
    ["Task", shorten(sanitise(job.task).trim())],
    ["Repository", optional(job.repo_url)],
    ["Base", job.repo_url === "" ? null : optional(job.base_ref)],
    ["Exit code", job.exit_code === null ? null : String(job.exit_code)],
    ...resultFacts(job),
    ...effortFacts(job),
    ["Session", optional(job.session_id)],
    ["Attempt", job.attempt > 1 ? String(job.attempt) : null],
    ["Instance", optional(job.pod_name)],
    ["Created", job.created_at],
    ["Started", job.started_at],
    ["Ended", job.ended_at],
  ];
  const times = stageTimes(job, now);
  return [
    factLines(facts, layout),
    ...(times.length > 0 ? [[paint("bold", "Where the time went"), ...times]] : []),
    ...(job.output === null ? [] : [[paint("bold", "Output"), shorten(sanitise(job.output).trimEnd())]]),
  ]
    .map((lines) => lines.join("\n"))
    .join("\n\n");
};

/** The block at the end of `svc run --wait`. */
export const jobSummary = (job: Job, layout: Layout): string =>
  factLines(
    [
      ["Job", job.id],
      ...outcomeFacts(job, layout),
      ["Profile", profile(job)],
      ...resultFacts(job),
      // `--session-id` takes it, to continue where this job ended.
      ["Session", optional(job.session_id)],
      ...effortFacts(job),
    ],
    layout,
  ).join("\n");

/** Null: an older version accepted the job. */
export const profile = ({
  profile: name,
  profile_rule: rule,
}: Pick<Job, "profile" | "profile_rule">): string => oneLine(rule === null ? name : `${name} (${rule})`);

export const warningsFact = (warnings: readonly string[]): Fact => [
  "Warnings",
  warnings.map((warning) => `- ${oneLine(warning)}`).join("\n"),
  "prose",
];

/** How it ended, and what to do when it failed. */
const outcomeFacts = (job: Job, { paint }: Layout): Fact[] => {
  const { status, failure_reason: reason, error } = job;
  // Other errors may be the agent's own words.
  const words = reason !== null && aboutInput.has(reason) ? flagWords : String;
  return [
    ["Status", paintStatus(status, paint) + (reason === null ? "" : ` (${reason})`)],
    ["Error", error === null ? null : words(sanitise(error)).trimEnd(), "prose"],
    ["What to do", adviceFor(job), "prose"],
  ];
};

const aboutInput: ReadonlySet<FailureReason> = new Set([
  "clone_failed",
  "worktree_failed",
  "mcp_config_invalid",
]);

/** Where the work is. */
const resultFacts = (job: Job): Fact[] => {
  const { salvage_ref: ref, id } = job;
  return [
    ["Pull request", optional(job.pr_url)],
    ["Branch", branch(job)],
    ["Commit", optional(job.commit_sha)],
    ["Changes", changes(job)],
    ["Worktree", optional(job.worktree_path)],
    ["Unfinished work", ref === null ? null : savedWork({ ref, gitDir: job.cached_clone, id })],
    warningsFact(job.warnings),
  ];
};

const effortFacts = (job: Job): Fact[] => [
  ["Model", optional(job.model)],
  ["Turns", job.num_turns === null ? null : String(job.num_turns)],
  ["Tokens", tokens(job)],
  ["Cost", job.cost_usd === null ? null : cost(job.cost_usd)],
  ["Duration", job.duration_ms === null ? null : duration(job.duration_ms)],
];

/** Marks a branch that this job has not pushed: its name alone does not show that it is only here. */
const branch = ({ branch: name, stages, ended_at: ended }: Job): string | null => {
  if (name === null) return null;
  const pushed = ended === null || stages.some(({ stage }) => stage === "pushed");
  return oneLine(name) + (pushed ? "" : "  (not pushed by this job)");
};

const changes = ({ diff_stat: stat }: Job): string | null => {
  if (stat === null) return null;
  return stat.files === 0 ? "none" : `${counted(stat.files, "file")}, +${stat.insertions} −${stat.deletions}`;
};

const tokens = ({ usage }: Job): string | null => {
  if (usage === null) return null;
  const cached = usage.cache_read_input_tokens + usage.cache_creation_input_tokens;
  return `${usage.input_tokens} in, ${usage.output_tokens} out, ${cached} cached`;
};

type SavedWork = {
  ref: string;
  /** Git directory that has the ref; null: unknown. */
  gitDir: string | null;
  /** Id of the job or worktree that the work belongs to. */
  id: string;
};

/** The salvage ref, and the git commands to get the work back. */
export const savedWork = ({ ref: given, gitDir, id }: SavedWork): string => {
  const ref = oneLine(given);
  if (gitDir === null) return ref;
  const from = shellWord(oneLine(gitDir));
  return [
    ref,
    `look at it:  git --git-dir ${from} log -p --stat --diff-merges=1 ${ref} ${beyondBase}`,
    `fetch it:    git fetch ${from} ${ref}:refs/heads/salvaged-${id.slice(0, 8)}`,
  ].join("\n");
};

/**
 * Excludes what the remote's branches have, except branches of jobs: those contain the work of a job that failed after
 * its push. Saved work may be a merge (of the agent's HEAD, its branch and earlier saves), of which git shows nothing
 * without `--diff-merges`.
 */
const beyondBase = "--not --exclude='origin/service/*' --remotes";

/** Characters of task and output that are shown; `--json` has all. */
const maxShown = 2000;

const shorten = (text: string): string => {
  if (text.length <= maxShown) return text;
  // Do not cut a character outside the basic plane in half.
  const head = text.slice(0, maxShown).replace(/[\uD800-\uDBFF]$/, "");
  return `${head}\n… ${text.length - head.length} more characters: svc job --json has them`;
};

/**
 * Duration of each stage: its time (UTC), the time since the stage before, and its share of the whole. While the job
 * runs, the last line is the time since its latest stage.
 */
export const stageTimes = (job: Job, now: number): string[] => {
  const attempts = new Set(job.stages.map(({ attempt }) => attempt).filter((attempt) => attempt > 0));
  const stages = job.stages.map(({ stage, at, attempt }) => ({
    name: attempts.size > 1 && attempt > 0 ? `${stage} (attempt ${attempt})` : stage,
    at: Date.parse(at),
  }));
  const begin = stages[0]?.at;
  if (begin === undefined) return [];
  if (job.ended_at === null) stages.push({ name: "now", at: Math.max(now, begin) });
  const whole = (stages.at(-1)?.at ?? begin) - begin;
  return aligned(
    stages.map(({ name, at }, index) => {
      const before = stages[index - 1]?.at;
      const took = before === undefined ? null : Math.max(0, at - before);
      return [
        name,
        new Date(at).toISOString().slice(11, 23),
        took === null ? "" : duration(took).padStart(8),
        took === null || whole === 0 ? "" : `${Math.round((100 * took) / whole)} %`.padStart(5),
      ];
    }),
  );
};

/** What the user can do about a job that did not succeed, or null. */
const adviceFor = ({ status, failure_reason: reason, retryable }: Job): string | null => {
  if (status === "expired") return "No worker took it in time: submit it again, or raise SERVICE_JOB_TTL.";
  if (reason === null) return null;
  return advice[reason] + (retryable === true ? " Submitting it again may work." : "");
};

const advice: Record<FailureReason, string> = {
  agent_error: "The agent gave up: read its output and put the task in other words.",
  agent_exit:
    "The agent's process ended without a result: see the error, and run the agent CLI by hand if it says too little.",
  api_error: "The model's API failed.",
  rate_limited: "The model's rate limit is used up: wait for its reset.",
  auth: "The model refused the credentials: check AGENT_CLI_OAUTH_TOKEN, MODEL_API_AUTH_TOKEN or ANTHROPIC_API_KEY of the service.",
  max_turns:
    "The agent used up its turns: split the task, raise max_turns in the profile, or continue with --session-id.",
  budget: "The job spent the profile's max_budget_usd: raise it, or split the task.",
  timeout:
    "The agent ran out of time: split the task, or raise timeout in the profile or SERVICE_AGENT_CLI_TIMEOUT.",
  stalled: "The agent fell silent, and the service stopped it.",
  instance_lost: "Resume the agent's session, if it has one, with --session-id.",
  clone_failed: "Check that the service can reach the repository and has the credentials for it.",
  worktree_failed: "Check that the base branch exists, and that the service's disk has room.",
  profile_invalid: "Correct the profile: svc profiles shows its fault.",
  mcp_config_invalid: "Correct the MCP configuration that --file-path or the profile names.",
  cli_not_found: "Install the agent CLI on the service's machine, or set SERVICE_AGENT_CLI_BINARY.",
  push_failed: "Check that the token may push, and the rules of the branch; the branch has the work.",
  pr_failed: "The branch is pushed: open the pull request by hand, or check the token's rights.",
  internal: "This is a fault of the service: look into its log.",
};
