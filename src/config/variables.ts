import { homedir, hostname } from "node:os";
import { join } from "node:path";
import { z } from "zod";

/**
 * The one table of settings. `svc config`, the documentation's table and the validation at start are made from it.
 * Values come from the environment, then `~/.service/config.yml`, then the default; an empty variable counts as unset.
 */
type Variable<Schema extends z.ZodType> = {
  name: string;
  /** Key in the YAML file, dotted for nesting. */
  yaml: string;
  schema: Schema;
  /** Text of the default as it would be written in the environment; null: unset. */
  default: string | null | (() => string);
  meaning: string;
  /** Masked wherever it is printed. */
  secret: boolean;
  /** Names of the environment read when `name` is unset. */
  fallbacks: string[];
};

type Options = { yaml?: string; secret?: boolean; fallbacks?: string[] };

const variable = <Schema extends z.ZodType>(
  name: string,
  schema: Schema,
  defaultText: Variable<Schema>["default"],
  meaning: string,
  { yaml = name.toLowerCase().replace(/^service_/, ""), secret = false, fallbacks = [] }: Options = {},
): Variable<Schema> => ({ name, yaml, schema, default: defaultText, meaning, secret, fallbacks });

const text = z.string();
const optional = z.string().nullable();
const list = z.string().transform((value) => value.split(",").map((item) => item.trim()).filter((item) => item !== ""));
const integer = (min: number, max: number) =>
  z
    .string()
    .regex(/^\d+$/, "must be a whole number")
    .transform(Number)
    .pipe(z.number().min(min, `must be at least ${min}`).max(max, `must be at most ${max}`));
const flag = z
  .enum(["true", "false", "1", "0", "yes", "no", "on", "off"], "must be true or false")
  .transform((value) => ["true", "1", "yes", "on"].includes(value));
const seconds = integer(0, 31_536_000);
const path = z.string().refine((value) => value.startsWith("/"), "must be an absolute path");
const optionalPath = path.nullable();

const underHome = (...parts: string[]) => () => join(homedir(), ...parts);

export const variables = {
  host: variable("SERVICE_HOST", text, "127.0.0.1", "Address to listen on; another than loopback needs SERVICE_API_KEYS"),
  port: variable("SERVICE_PORT", integer(0, 65_535), "8200", "Port to listen on; 0: a free one"),
  transport: variable("SERVICE_TRANSPORT", z.enum(["sse"], "this version has the sse (HTTP) transport only"), "sse", "How clients reach the service"),
  apiKeys: variable("SERVICE_API_KEYS", list, "", "Comma-separated keys; when set, all but /health and /ready asks for one", { secret: true }),
  apiKey: variable("SERVICE_API_KEY", optional, null, "Key that the svc commands send; default: the first of SERVICE_API_KEYS", { secret: true }),
  allowOpen: variable("SERVICE_ALLOW_OPEN", flag, "false", "Permit listening beyond loopback without keys"),
  logLevel: variable("SERVICE_LOG_LEVEL", z.enum(["fatal", "error", "warn", "info", "debug", "trace", "silent"]), "info", "Least severe level that is logged"),

  agentCliBinary: variable("SERVICE_AGENT_CLI_BINARY", text, "claude", "Path or name of the agent CLI"),
  agentCliTimeout: variable("SERVICE_AGENT_CLI_TIMEOUT", integer(1, 604_800), "3600", "Seconds a job's agent may run in all"),
  agentCliFirstOutputTimeout: variable("SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT", seconds, "300", "Seconds to the agent's first event; 0: no limit"),
  agentCliIdleTimeout: variable("SERVICE_AGENT_CLI_IDLE_TIMEOUT", seconds, "1200", "Seconds without any event of the agent; 0: no limit"),
  agentCliResultGrace: variable("SERVICE_AGENT_CLI_RESULT_GRACE", seconds, "30", "Seconds the agent has to exit after its result"),
  agentCliKillGrace: variable("SERVICE_AGENT_CLI_KILL_GRACE", seconds, "10", "Seconds between SIGTERM and SIGKILL"),
  agentHome: variable("AGENT_CLI_HOME_DIR", path, () => homedir(), "HOME of the agent CLI", { yaml: "agent_cli_home_dir" }),
  agentEnv: variable("SERVICE_AGENT_ENV", list, "", "Comma-separated names of further variables handed to the agent"),
  agentOauthToken: variable("AGENT_CLI_OAUTH_TOKEN", optional, null, "Model credential, long-lived token; wins over MODEL_API_*", { secret: true, fallbacks: ["CLAUDE_CODE_OAUTH_TOKEN"] }),
  modelAuthToken: variable("MODEL_API_AUTH_TOKEN", optional, null, "Model credential, static key", { secret: true, fallbacks: ["ANTHROPIC_AUTH_TOKEN"] }),
  modelApiKey: variable("ANTHROPIC_API_KEY", optional, null, "Model credential in its native name", { secret: true }),
  modelBaseUrl: variable("MODEL_API_BASE_URL", z.url({ protocol: /^https?$/, error: "must be an http(s) URL" }).nullable(), null, "Model endpoint other than the provider's", { fallbacks: ["ANTHROPIC_BASE_URL"] }),

  jobsDir: variable("SERVICE_JOBS_DIR", path, underHome(".service", "jobs"), "Directory of the job records and event logs"),
  jobTtl: variable("SERVICE_JOB_TTL", integer(1, 31_536_000), "86400", "Seconds a job may wait, and seconds its record is kept after its end"),
  maxParallelJobs: variable("SERVICE_MAX_PARALLEL_JOBS", integer(1, 1000), "3", "Jobs that run at once"),
  maxQueuedJobs: variable("SERVICE_MAX_QUEUED_JOBS", integer(1, 1_000_000), "10000", "Jobs that may wait; beyond it submissions get 503"),
  eventLogMaxBytes: variable("SERVICE_EVENT_LOG_MAX_BYTES", integer(65_536, 10_737_418_240), "67108864", "Size of a job's event log past which thinking and text are left out"),
  podName: variable("SERVICE_POD_NAME", text, () => hostname(), "Name of this instance, recorded on each job"),
  defaultProfile: variable("SERVICE_DEFAULT_PROFILE", text, "code", "Profile of a task that no routing rule fits"),
  sharedFsRoot: variable("SERVICE_SHARED_FS_ROOT", optionalPath, null, "Shared read-write file system; jobs' configuration goes under {root}/jobs/, file_path must lie under it"),

  reposRoot: variable("SERVICE_REPOS_ROOT", path, underHome("service-repos"), "Root of the cached clones"),
  worktreeRoot: variable("SERVICE_WORKTREE_ROOT", path, underHome(".service", "worktrees"), "Root of the worktrees, on local disk"),
  worktreeTtl: variable("SERVICE_WORKTREE_TTL", seconds, "86400", "Seconds a job's worktree is kept after the job's end; 0: removed at once"),
  allowLocalRepos: variable("SERVICE_ALLOW_LOCAL_REPOS", flag.nullable(), null, "Permit file:// URLs and absolute paths; default: only when listening on loopback"),
  repoLockTimeout: variable("SERVICE_REPO_LOCK_TIMEOUT", integer(1, 86_400), "600", "Seconds to wait for a repository's lock before the job fails"),
  gitTimeout: variable("SERVICE_GIT_TIMEOUT", integer(1, 86_400), "600", "Seconds one git or gh command may take"),
  gitAuthorName: variable("SERVICE_GIT_AUTHOR_NAME", text, "svc", "Author of commits, the agent's too unless it sets another"),
  gitAuthorEmail: variable("SERVICE_GIT_AUTHOR_EMAIL", text, "svc@localhost", "E-mail of that author"),
  gitHost: variable("GIT_HOST", z.string().regex(/^[a-z0-9.-]+(:\d+)?$/, "must be a host name, lower-case, with an optional port"), "github.com", "Host that the git host credentials belong to", { yaml: "github.host", fallbacks: ["GH_HOST"] }),
  gitHostToken: variable("GIT_HOST_TOKEN", optional, null, "Token for clone, push and pull requests on that host", { yaml: "github.token", secret: true }),
  gitHostAppId: variable("GIT_HOST_APP_ID", optional, null, "App id; an app's token is used before GIT_HOST_TOKEN", { yaml: "github.app_id" }),
  gitHostAppInstallationId: variable("GIT_HOST_APP_INSTALLATION_ID", optional, null, "Installation of the app", { yaml: "github.app_installation_id" }),
  gitHostAppPrivateKeyPath: variable("GIT_HOST_APP_PRIVATE_KEY_PATH", optionalPath, null, "PEM file of the app's key", { yaml: "github.app_private_key_path" }),
  gitHostAppPrivateKey: variable("GIT_HOST_APP_PRIVATE_KEY", optional, null, "The app's key as PEM text", { yaml: "github.app_private_key", secret: true }),
  gitHostAppPrivateKeyBase64: variable("GIT_HOST_APP_PRIVATE_KEY_BASE64", optional, null, "The app's key, PEM in base64", { yaml: "github.app_private_key_base64", secret: true }),

  otelEnabled: variable("SERVICE_OTEL_ENABLED", flag, "true", "Hand the agent its OpenTelemetry settings"),
  otelEndpoint: variable("OTEL_EXPORTER_OTLP_ENDPOINT", text, "http://otel-collector:4317", "Collector endpoint"),
  otelProtocol: variable("OTEL_EXPORTER_OTLP_PROTOCOL", z.enum(["grpc", "http", "http/protobuf", "http/json"]), "grpc", "Protocol of the collector; http means http/protobuf"),
  otelLogPrompts: variable("SERVICE_OTEL_LOG_PROMPTS", flag, "false", "Log prompts in the agent's telemetry"),
  otelLogToolDetails: variable("SERVICE_OTEL_LOG_TOOL_DETAILS", flag, "true", "Log tool details in the agent's telemetry"),
};

type Variables = typeof variables;

/** All settings, resolved and validated. Durations are in seconds, sizes in bytes, as the variable's meaning says. */
export type Settings = { [Key in keyof Variables]: z.output<Variables[Key]["schema"]> };

/** Accepted for compatibility, without effect; each set one is named in a warning. */
export const deprecatedVariables = {
  SERVICE_AGENT_CLI_CONFIG_DIR: "each job has a config directory of its own",
  SERVICE_HOOKS_SYNC_INTERVAL: "the hooks repository is not refreshed in the background",
};
