import { instanceVariable, jobVariable } from "../../lib/process/marker.ts";
import type { AgentStart } from "../agent.ts";
import type { ClaudeSettings } from "./settings.ts";

export type AgentEnvironment = {
  variables: Record<string, string>;
  /** Names of SERVICE_AGENT_ENV that the agent may not have. */
  refused: string[];
  /** Values that must not show up in events, output or error. */
  secrets: string[];
};

type Request = {
  settings: ClaudeSettings;
  /** The service's own environment. */
  env: NodeJS.ProcessEnv;
  start: Pick<AgentStart, "id" | "attempt" | "launch">;
  /** Whether the agent runs as root. */
  root: boolean;
};

/**
 * The environment of the agent, built from an allow-list: whatever is not named here, or by the operator in
 * SERVICE_AGENT_ENV, does not reach it. The agent runs commands of its own, so all it has can be read by any of them.
 */
export const agentEnvironment = ({ settings, env, start, root }: Request): AgentEnvironment => {
  const refused = settings.agentEnv.filter(isForbidden);
  const listed = settings.agentEnv.filter((name) => !isForbidden(name));
  const passed = pick(env, (name) => inherited.has(name) || name.startsWith("LC_") || listed.includes(name));
  const credentials = modelCredentials(settings);
  return {
    variables: {
      ...passed,
      ...behaviour(start.launch.timeoutSeconds),
      ...credentials,
      ...(settings.otelEnabled ? telemetry(settings, start) : {}),
      ...(root && start.launch.bypassPermissions ? { IS_SANDBOX: "1" } : {}),
      HOME: settings.agentHome,
      CLAUDE_CONFIG_DIR: start.launch.configDir,
      [jobVariable]: start.id,
      SERVICE_JOB_ATTEMPT: String(start.attempt),
      SERVICE_PROFILE: start.launch.profile,
    },
    refused,
    secrets: [
      ...Object.entries(credentials).flatMap(([name, value]) =>
        name === "ANTHROPIC_BASE_URL" ? [] : [value],
      ),
      ...listed.flatMap((name) => secretValue(name, env[name]) ?? []),
    ],
  };
};

const proxies = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

const certificates =
  "SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO".split(
    " ",
  );

const inherited = new Set([
  ..."PATH LANG LANGUAGE TZ TMPDIR".split(" "),
  instanceVariable,
  ...proxies,
  ...proxies.map((name) => name.toLowerCase()),
  ...certificates,
]);

/** An empty variable counts as unset. */
const pick = (env: NodeJS.ProcessEnv, wanted: (name: string) => boolean): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => Boolean(entry[1]) && wanted(entry[0])),
  );

/** Of two credentials the CLI prefers the others to the long-lived token: with it they must not be there. */
const modelCredentials = (settings: ClaudeSettings): Record<string, string> => {
  if (settings.agentOauthToken !== null) return { CLAUDE_CODE_OAUTH_TOKEN: settings.agentOauthToken };
  return {
    ...(settings.modelAuthToken !== null && { ANTHROPIC_AUTH_TOKEN: settings.modelAuthToken }),
    ...(settings.modelApiKey !== null && { ANTHROPIC_API_KEY: settings.modelApiKey }),
    ...(settings.modelBaseUrl !== null && { ANTHROPIC_BASE_URL: settings.modelBaseUrl }),
  };
};

/** How the CLI is to behave as a subprocess that nobody watches. */
const behaviour = (timeoutSeconds: number): Record<string, string> => {
  // A command must give up before the job does, so that the agent can still say so.
  const bashLimit = Math.max(1000, Math.min(600_000, timeoutSeconds * 900));
  return {
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    // A background command would keep the process alive long after its result.
    CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
    DISABLE_AUTOUPDATER: "1",
    // The CLI's own 10 retries hold a job whose model refuses it for three minutes.
    CLAUDE_CODE_MAX_RETRIES: "3",
    // Otherwise a server that is slow to start is left out without a word.
    MCP_CONNECTION_NONBLOCKING: "0",
    CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD: "1",
    BASH_MAX_TIMEOUT_MS: String(bashLimit),
    BASH_DEFAULT_TIMEOUT_MS: String(Math.min(120_000, bashLimit)),
  };
};

const telemetry = (settings: ClaudeSettings, { id, launch }: Request["start"]): Record<string, string> => {
  const attributes = {
    "service.job_id": id,
    profile: launch.profile,
    repo_key: launch.repoKey ?? "",
    pod: settings.podName,
  };
  return {
    CLAUDE_CODE_ENABLE_TELEMETRY: "1",
    OTEL_METRICS_EXPORTER: "otlp",
    OTEL_LOGS_EXPORTER: "otlp",
    OTEL_EXPORTER_OTLP_ENDPOINT: settings.otelEndpoint,
    OTEL_EXPORTER_OTLP_PROTOCOL: settings.otelProtocol === "http" ? "http/protobuf" : settings.otelProtocol,
    ...(settings.otelLogPrompts && { OTEL_LOG_USER_PROMPTS: "1" }),
    ...(settings.otelLogToolDetails && { OTEL_LOG_TOOL_DETAILS: "1" }),
    OTEL_RESOURCE_ATTRIBUTES: Object.entries(attributes)
      .filter(([, value]) => value !== "")
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
      .join(","),
  };
};

/**
 * Variables that never reach the agent, even if SERVICE_AGENT_ENV lists them: the service's own keys and stores, the git
 * and tracing credentials, and the model credentials, which have a rule of their own.
 */
const isForbidden = (name: string): boolean => forbidden.some((pattern) => pattern.test(name));

const forbidden = [
  /^(SERVICE|BRIDGE|OAUTH|KV|TRACING|LANGFUSE|GIT_HOST|MODEL_API)_/i,
  /^(GH|GITHUB|GITLAB|GIT)_.*(TOKEN|KEY|SECRET|PASSWORD|PAT|ASKPASS|AUTH|CREDENTIAL)/i,
  // git takes configuration from the environment, headers with credentials among it.
  /^GIT_CONFIG/i,
  /^(GIT|SSH)_(ASKPASS|AUTH_SOCK|SSH_COMMAND)$/i,
  /^OTEL_EXPORTER_.*HEADERS$/i,
  /^(AGENT_CLI_OAUTH_TOKEN|CLAUDE_CODE_OAUTH_TOKEN|ANTHROPIC_(API_KEY|AUTH_TOKEN|BASE_URL))$/i,
];

/** The value of a variable if its name says that it is a secret. */
const secretValue = (name: string, value: string | undefined): string | undefined =>
  /TOKEN|KEY|SECRET|PASSWORD|CREDENTIAL/i.test(name) ? value : undefined;
