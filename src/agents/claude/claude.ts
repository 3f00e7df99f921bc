import { loginDirectory, withOtherKey } from "../../config/model-credential.ts";
import { instanceVariable, jobMarker, jobVariable } from "../../lib/process/marker.ts";
import { supervise } from "../../lib/process/supervise.ts";
import type { Redactor } from "../../lib/redact.ts";
import type { Agent, AgentStart, StartedAgent } from "../agent.ts";
import { claudeArguments, appendedByArguments } from "./arguments.ts";
import { findAnswer, hasDeferred } from "./deferred.ts";
import { createDenials } from "./denials.ts";
import { locateCli } from "./locate.ts";
import { unboxedOutcome, unstartedOutcome } from "./outcome.ts";
import { openPlace, type Surroundings } from "./place.ts";
import { createProcess } from "./process.ts";
import type { TelemetryReceiver } from "./routes.ts";
import type { ClaudeSettings } from "./settings.ts";
import { askVersion, capabilitiesOf, oldestVersion } from "./version.ts";

type Options = Surroundings & {
  /** Masks secrets in all that the agent says: events, output and errors. */
  redact: Redactor;
};

/** The agent adapter for Claude Code, or a program with the same protocol. */
export const createClaudeAgent = (options: Options): Agent => ({
  start: async (request) => {
    const settings = request.usesKey ? withOtherKey(options.settings) : options.settings;
    const agentCliBinary = await locateCli(settings.agentCliBinary, options.env["PATH"]);
    return await start(request, { ...options, settings: { ...settings, agentCliBinary } });
  },
  findAnswer,
});

const start = async (asked: AgentStart, options: Options): Promise<StartedAgent> => {
  const { settings, env } = options;
  const { version } = await askVersion(settings.agentCliBinary, { PATH: env["PATH"] ?? "" });
  const { request, cannotAsk, cannotHear } = forVersion(asked, version, settings.agentCliBinary);
  // To work without the approval that was asked for would be worse than not to work.
  if (cannotAsk.length > 0 && asked.asks?.plan === true)
    return {
      ok: false,
      outcome: unstartedOutcome({ ok: false, code: "not_executable", message: cannotAsk.join(" ") }),
    };
  const { id, cwd, launch, session, asks } = request;
  const denials = createDenials();
  const place = await openPlace(request, options, denials.add).catch(asError);
  if (place instanceof Error) return { ok: false, outcome: unboxedOutcome(place) };
  const { resumeFrom } = session;
  const root = process.getuid?.() === 0;
  const { variables, refused } = agentEnvironment({ ...place.given, env, start: request, root });
  const asksAgain = asks !== undefined && resumeFrom !== null && (await hasDeferred(resumeFrom));
  const appended = await appendedByArguments(launch);
  const spawned = await supervise({
    command: settings.agentCliBinary,
    args: claudeArguments(request),
    cwd,
    env: variables,
    within: launch,
    marker: jobMarker(id, env[instanceVariable]),
    box: place.box,
  });
  if (!spawned.ok) await place.close();
  if (!spawned.ok) return { ok: false, outcome: unstartedOutcome(spawned) };
  const agent = spawned.process;
  void agent.ended.then(place.close);
  const made = {
    ...request,
    ...options,
    ...place,
    cannotHear,
    asksAgain,
    first: request.goesOn === true && resumeFrom !== null ? carryOn : null,
    version,
    agent,
    warnings: [...place.warnings, ...refused.map(refusal), ...cannotAsk],
    appended,
    denials,
  };
  return { ok: true, process: createProcess(made) };
};

/** The request without what this version of the CLI cannot do. */
const forVersion = (
  request: AgentStart,
  version: string | null,
  cli: string,
): { request: AgentStart; cannotAsk: string[]; cannotHear: string | null } => {
  const can = capabilitiesOf(version);
  const { asks = { question: false, plan: false }, hears = false, ...others } = request;
  const wantsAsking = asks.question || asks.plan;
  const launch = can.worktreeFlag ? request.launch : { ...request.launch, worktree: null };
  return {
    request: { ...others, launch, ...(can.asks && { hears, ...(wantsAsking && { asks }) }) },
    cannotAsk: wantsAsking && !can.asks ? [tooOld(cli)] : [],
    cannotHear: hears && !can.asks ? deaf(cli) : null,
  };
};

/**
 * Said to a session whose turn ended early. Resumed without a message the CLI goes on once, if told so in its environment, but
 * not after a second failure: it then waits for ever.
 */
const carryOn = "Continue.";

const tooOld = (cli: string): string =>
  `The agent can ask nobody, and have no plan approved: ${cli} is older than ${oldestVersion}, or does not tell its version.`;

const deaf = (cli: string): string =>
  `The agent can be told nothing while it works: ${cli} is older than ${oldestVersion}, or does not tell its version; update it.`;

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));

const refusal = (name: string): string =>
  `SERVICE_AGENT_ENV lists ${name}, which the agent may not have; it was left out. Remove it from the list.`;

type EnvironmentRequest = {
  settings: ClaudeSettings;
  /** The service's own environment. */
  env: NodeJS.ProcessEnv;
  start: Pick<AgentStart, "id" | "attempt" | "launch" | "traceparent">;
  receiver: TelemetryReceiver | null;
  /** Whether the agent runs as root. */
  root: boolean;
  /** Further variables, which a sandbox needs. */
  inside?: Record<string, string>;
};

/**
 * The environment of the agent, from an allow-list: only what is named here, or by the operator in SERVICE_AGENT_ENV,
 * reaches it. The agent runs commands, and each of them can read all of it.
 */
export const agentEnvironment = (request: EnvironmentRequest) => {
  const { settings, env, start, root, inside } = request;
  const variables: Record<string, string> = {
    ...passedOn(settings, env),
    ...behaviour(start.launch.timeoutSeconds),
    ...modelCredentials(settings),
    ...(settings.otelEnabled ? telemetry(request) : {}),
    ...(root && start.launch.bypassPermissions ? { IS_SANDBOX: "1" } : {}),
    HOME: settings.agentHome,
    CLAUDE_CONFIG_DIR: start.launch.configDir,
    [jobVariable]: start.id,
    SERVICE_JOB_ATTEMPT: String(start.attempt),
    SERVICE_PROFILE: start.launch.profile,
    ...inside,
  };
  /** Names in SERVICE_AGENT_ENV that the agent may not have. */
  const refused = settings.agentEnv.filter(isForbidden);
  return { variables, refused };
};

/** What it has from the service's own environment. */
export const passedOn = (
  { agentEnv }: Pick<ClaudeSettings, "agentEnv">,
  env: NodeJS.ProcessEnv,
): Record<string, string> => {
  const listed = agentEnv.filter((name) => !isForbidden(name));
  return pick(env, (name) => inherited.has(name) || name.startsWith("LC_") || listed.includes(name));
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
const pick = (env: NodeJS.ProcessEnv, isWanted: (name: string) => boolean): Record<string, string> =>
  Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => Boolean(entry[1]) && isWanted(entry[0])),
  );

/** The CLI prefers other credentials to the long-lived token: with the token they must be absent. */
const modelCredentials = (settings: ClaudeSettings): Record<string, string> => {
  if (settings.agentOauthToken !== null) return { CLAUDE_CODE_OAUTH_TOKEN: settings.agentOauthToken };
  return {
    ...(settings.modelAuthToken !== null && { ANTHROPIC_AUTH_TOKEN: settings.modelAuthToken }),
    ...(settings.modelApiKey !== null && { ANTHROPIC_API_KEY: settings.modelApiKey }),
    // Without a credential the CLI uses its own login, which it would look for in the job's CLAUDE_CONFIG_DIR.
    ...(settings.modelAuthToken === null &&
      settings.modelApiKey === null && { CLAUDE_SECURESTORAGE_CONFIG_DIR: loginDirectory(settings) }),
    ...(settings.modelBaseUrl !== null && { ANTHROPIC_BASE_URL: settings.modelBaseUrl }),
  };
};

/** Behaviour of the CLI as an unattended subprocess. */
const behaviour = (timeoutSeconds: number): Record<string, string> => {
  // A command must time out before the job does, so that the agent can still report it.
  const bashLimit = Math.max(1000, Math.min(600_000, timeoutSeconds * 900));
  return {
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    // A background command would keep the process alive long after its result.
    CLAUDE_CODE_DISABLE_BACKGROUND_TASKS: "1",
    DISABLE_AUTOUPDATER: "1",
    // With the CLI's own 10 retries a job whose model refuses it would last three minutes.
    CLAUDE_CODE_MAX_RETRIES: "3",
    // Otherwise the CLI silently omits a server that is slow to start.
    MCP_CONNECTION_NONBLOCKING: "0",
    CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD: "1",
    BASH_MAX_TIMEOUT_MS: String(bashLimit),
    BASH_DEFAULT_TIMEOUT_MS: String(Math.min(120_000, bashLimit)),
  };
};

/** The named endpoint before the service's own receiver. */
const telemetry = ({ settings, start, receiver }: EnvironmentRequest): Record<string, string> => {
  const { otelEndpoint, otelProtocol } = settings;
  const target =
    otelEndpoint !== null
      ? {
          OTEL_EXPORTER_OTLP_ENDPOINT: otelEndpoint,
          OTEL_EXPORTER_OTLP_PROTOCOL: otelProtocol === "http" ? "http/protobuf" : (otelProtocol ?? "grpc"),
          // An exporter that gets no answer would keep the agent from exiting for 2 s.
          CLAUDE_CODE_OTEL_SHUTDOWN_TIMEOUT_MS: "500",
        }
      : receiver && toReceiver(receiver);
  if (target === null) return {};
  const attributes = {
    "service.job_id": start.id,
    profile: start.launch.profile,
    repo_key: start.launch.repoKey ?? "",
    pod: settings.podName,
  };
  return {
    CLAUDE_CODE_ENABLE_TELEMETRY: "1",
    OTEL_METRICS_EXPORTER: "otlp",
    OTEL_LOGS_EXPORTER: "otlp",
    // The CLI reports traces only with both.
    OTEL_TRACES_EXPORTER: "otlp",
    CLAUDE_CODE_ENHANCED_TELEMETRY_BETA: "1",
    ...target,
    ...(start.traceparent !== undefined && { TRACEPARENT: start.traceparent }),
    ...(settings.otelLogPrompts && { OTEL_LOG_USER_PROMPTS: "1" }),
    ...(settings.otelLogToolDetails && { OTEL_LOG_TOOL_DETAILS: "1" }),
    OTEL_RESOURCE_ATTRIBUTES: Object.entries(attributes)
      .filter(([, value]) => value !== "")
      .map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
      .join(","),
  };
};

/** The receiver takes OTLP/JSON only. */
const toReceiver = ({ endpoint, token }: TelemetryReceiver): Record<string, string> => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: endpoint,
  OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
  // Not `Authorization`: the CLI sends the value as it is, others decode it, and that one has a space.
  OTEL_EXPORTER_OTLP_HEADERS: `X-Api-Key=${token}`,
});

/**
 * Variables that never reach the agent, even if SERVICE_AGENT_ENV lists them: the service's own keys and stores, git
 * and tracing credentials, and model credentials, which have a rule of their own.
 */
const isForbidden = (name: string): boolean => forbidden.some((pattern) => pattern.test(name));

const forbidden = [
  /^(SERVICE|BRIDGE|OAUTH|KV|TRACING|LANGFUSE|GIT_HOST|MODEL_API)_/i,
  /^(GH|GITHUB|GITLAB|GIT)_.*(TOKEN|KEY|SECRET|PASSWORD|PAT|ASKPASS|AUTH|CREDENTIAL)/i,
  // git reads configuration from the environment, including headers with credentials.
  /^GIT_CONFIG/i,
  /^(GIT|SSH)_(ASKPASS|AUTH_SOCK|SSH_COMMAND)$/i,
  /^OTEL_EXPORTER_.*HEADERS$/i,
  /^(AGENT_CLI_OAUTH_TOKEN|CLAUDE_CODE_OAUTH_TOKEN|ANTHROPIC_(API_KEY|AUTH_TOKEN|BASE_URL))$/i,
];
