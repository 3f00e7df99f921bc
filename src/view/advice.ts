import type { FailureReason, Job } from "../contract/job.ts";

/** What the user can do about a job that did not succeed, or null. */
export const adviceFor = ({ status, failure_reason: reason, retryable }: Job): string | null => {
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
  max_turns: "Split the task, raise max_turns in the profile, or continue with --session-id.",
  budget: "Raise max_budget_usd in the profile, or split the task.",
  timeout: "Split the task, or raise timeout in the profile or SERVICE_AGENT_CLI_TIMEOUT.",
  stalled: "Continue with --session-id, or try the agent CLI with svc doctor.",
  instance_lost: "Continue it with svc continue and the id of the job.",
  clone_failed: "Try git ls-remote with this repository as the service's user.",
  worktree_failed: "Check that the base branch exists; svc disk shows the service's free room.",
  profile_invalid: "Correct the profile: svc profiles shows its fault.",
  mcp_config_invalid: "Correct the MCP configuration that --file-path or the profile names.",
  cli_not_found: "Install the agent CLI on the service's machine, or set SERVICE_AGENT_CLI_BINARY.",
  sandbox_failed: "Try the sandbox on the service's machine with svc doctor.",
  setup_failed: "Read the end of its output, and correct .svc/setup.yml or setup of the profile.",
  push_failed: "Check that the token may push, and the rules of the branch; the branch has the work.",
  needs_input: "Answer it with svc continue and the id of the job.",
  checks_failed: "Read its checks with svc job, and continue it with svc continue and the id of the job.",
  pr_failed: "Open the pull request by hand: the branch is pushed. svc doctor shows the token's rights.",
  internal: "This is a fault of the service: look into its log.",
};
