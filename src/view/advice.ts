import type { FailureReason, Job } from "../contract/job.ts";
import { flagWords, oneLine, sanitise } from "./sanitise.ts";

/** What went wrong, and what the user can do about it; null: nothing. On the page a command is a button. */
export const faultOf = (
  job: Job,
  reader: "shell" | "page",
): { error: string | null; advice: string | null } => {
  const { failure_reason: reason } = job;
  // Other errors may be the agent's own words.
  const words = reader === "shell" && reason !== null && aboutInput.has(reason) ? flagWords : String;
  if (job.error === null) return { error: null, advice: adviceFor(job) };
  const said = words(sanitise(job.error)).trimEnd();
  // Only the second line: what follows may be the agent's own words.
  const [, before, own, after] = ownAdvice.exec(said) ?? [];
  if (own === undefined) return { error: said, advice: adviceFor(job) };
  const isCommand = reader === "page" && own.startsWith("svc ");
  return { error: `${before}${after}`, advice: isCommand ? adviceFor(job) : own };
};

const ownAdvice = /^(.*)\nWhat to do: (.*)([^]*)/;

const aboutInput: ReadonlySet<FailureReason> = new Set([
  "clone_failed",
  "worktree_failed",
  "mcp_config_invalid",
]);

/** `timeout: The agent ran for longer than 1800 s and was ended`; null: it has not failed. */
export const whyFailed = (job: Job): string | null => {
  if (job.failure_reason === null) return null;
  const [line = ""] = (faultOf(job, "shell").error ?? "").slice(0, 500).split("\n", 1);
  return [job.failure_reason.replaceAll("_", " "), oneLine(line)].filter(Boolean).join(": ");
};

const adviceFor = ({ status, failure_reason: reason, retryable }: Job): string | null => {
  if (status === "expired") return "No worker took it in time: submit it again, or raise SERVICE_JOB_TTL.";
  if (reason === null) return null;
  return advice[reason] + (retryable === true ? " Submitting it again may work." : "");
};

/** For errors that do not say it themselves. */
const advice: Record<FailureReason, string> = {
  agent_error: "Read what the agent said, and put the task in other words.",
  agent_exit: "Try the agent CLI on the service's machine with svc doctor.",
  api_error: "Ask the model once with svc doctor on the service's machine.",
  rate_limited: "Wait for the reset of the limit, then submit it again.",
  auth: "Set AGENT_CLI_OAUTH_TOKEN, MODEL_API_AUTH_TOKEN or ANTHROPIC_API_KEY of the service anew; svc doctor tries it.",
  max_turns: "Split the task, raise max_turns in the profile, or continue it.",
  budget: "Raise max_budget_usd in the profile, or split the task.",
  timeout: "Split the task, or raise timeout in the profile or SERVICE_AGENT_CLI_TIMEOUT.",
  stalled: "Continue it, or try the agent CLI with svc doctor.",
  instance_lost: "Continue it; where its agent had not begun, submit it again.",
  clone_failed: "Try git ls-remote with this repository as the service's user.",
  worktree_failed: "Check that the base branch exists; svc disk shows the service's free room.",
  profile_invalid: "Correct the profile: svc profiles shows its fault.",
  mcp_config_invalid: "Correct the MCP configuration that --file-path or the profile names.",
  cli_not_found: "Install the agent CLI on the service's machine, or set SERVICE_AGENT_CLI_BINARY.",
  sandbox_failed: "Try the sandbox on the service's machine with svc doctor.",
  setup_failed: "Correct .svc/setup.yml, or setup of the profile; svc setup tries it without an agent.",
  push_failed: "Check that the token may push, and the rules of the branch; the branch has the work.",
  needs_input: "Continue it with your answer.",
  checks_failed: "Read its checks, and continue it with what to do about them.",
  pr_failed: "Open the pull request by hand: the branch is pushed. svc doctor shows the token's rights.",
  internal: "This is a fault of the service: look into its log.",
};
