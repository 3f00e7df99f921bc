import { httpUrl, integer, optional, path, seconds, text, variableNames } from "../formats.ts";
import { variable } from "../variable.ts";

/** The agent CLI, its time limits and its model credentials. */
export const agentVariables = {
  agentCliBinary: variable("SERVICE_AGENT_CLI_BINARY", text, "claude", "Path or name of the agent CLI"),
  agentCliTimeout: variable(
    "SERVICE_AGENT_CLI_TIMEOUT",
    integer(1, 604_800),
    "3600",
    "Seconds a job's agent may run, unless its profile says otherwise",
  ),
  agentCliFirstOutputTimeout: variable(
    "SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT",
    seconds,
    "300",
    "Seconds to the agent's first event; 0: no limit",
  ),
  agentCliIdleTimeout: variable(
    "SERVICE_AGENT_CLI_IDLE_TIMEOUT",
    seconds,
    "1200",
    "Longest silence of the agent in seconds; 0: no limit",
  ),
  agentCliResultGrace: variable(
    "SERVICE_AGENT_CLI_RESULT_GRACE",
    seconds,
    "30",
    "Seconds the agent has to exit after its result",
  ),
  agentCliKillGrace: variable(
    "SERVICE_AGENT_CLI_KILL_GRACE",
    seconds,
    "10",
    "Seconds between SIGTERM and SIGKILL",
  ),
  agentHome: variable("AGENT_CLI_HOME_DIR", path, ({ home }) => home, "HOME of the agent CLI"),
  agentEnv: variable(
    "SERVICE_AGENT_ENV",
    variableNames,
    "",
    "Comma-separated names of further variables that the agent gets",
  ),
  agentOauthToken: variable(
    "AGENT_CLI_OAUTH_TOKEN",
    optional,
    null,
    "Model credential, long-lived token; takes precedence over MODEL_API_*",
    { secret: true, fallbacks: ["CLAUDE_CODE_OAUTH_TOKEN"] },
  ),
  modelAuthToken: variable("MODEL_API_AUTH_TOKEN", optional, null, "Model credential, static key", {
    secret: true,
    fallbacks: ["ANTHROPIC_AUTH_TOKEN"],
  }),
  modelApiKey: variable("ANTHROPIC_API_KEY", optional, null, "Model credential in its native name", {
    secret: true,
  }),
  modelBaseUrl: variable(
    "MODEL_API_BASE_URL",
    httpUrl.nullable(),
    null,
    "Model endpoint other than the provider's",
    { fallbacks: ["ANTHROPIC_BASE_URL"] },
  ),
};
