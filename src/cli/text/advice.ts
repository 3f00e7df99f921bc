import type { FailureReason, Job } from "../../contract/job.ts";

/** What the user can do about a job that did not succeed, or null. */
export const adviceFor = (job: Job): string | null => {
  if (job.status === "expired")
    return "No worker took it in time: submit it again, or raise SERVICE_JOB_TTL.";
  if (job.failure_reason === null) return null;
  const again = job.retryable === true ? " Submitting it again may work." : "";
  return advice[job.failure_reason] + again;
};

const advice: Record<FailureReason, string> = {
  agent_error: "The agent gave up: read its output and put the task in other words.",
  agent_exit:
    "The agent's process ended without a result: see the error, and run the agent CLI by hand if it says too little.",
  api_error: "The model's API failed.",
  rate_limited: "The model's rate limit is used up: wait for its reset.",
  auth: "The model refused the credentials: check AGENT_CLI_OAUTH_TOKEN, MODEL_API_AUTH_TOKEN or ANTHROPIC_API_KEY of the service.",
  max_turns:
    "The agent used up its turns: split the task, raise max_turns in the profile, or go on with --session-id.",
  budget: "The profile's max_budget_usd is spent: raise it, or split the task.",
  timeout:
    "The agent ran out of time: split the task, or raise timeout in the profile or SERVICE_AGENT_CLI_TIMEOUT.",
  stalled: "The agent fell silent and was stopped.",
  instance_lost: "Go on where the agent was with --session-id and its session, if it has one.",
  clone_failed: "Check that the service can reach the repository and has the credentials for it.",
  worktree_failed: "Check that the base branch exists, and the disk of the service.",
  profile_invalid: "Correct the profile: svc profiles shows what is wrong with it.",
  mcp_config_invalid: "Correct the MCP configuration that --file-path or the profile names.",
  cli_not_found: "Install the agent CLI on the service's machine, or set SERVICE_AGENT_CLI_BINARY.",
  push_failed: "Check the token's right to push and the rules of the branch; the work is kept on the branch.",
  pr_failed: "The branch is pushed: open the pull request by hand, or check the token's rights.",
  internal: "This is a fault of the service: its log tells more.",
};
