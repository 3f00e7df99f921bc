import { join } from "node:path";
import {
  flag,
  hosts,
  instanceName,
  integer,
  listOfSeconds,
  oneOf,
  paths,
  portRange,
  profileName,
  optionalPath,
  path,
  secretsKey,
  text,
  httpUrl,
  optional,
  seconds,
  variableNames,
} from "../formats.ts";
import { variable } from "../variable.ts";

/** Jobs: records, limits, profiles. */
export const jobVariables = {
  jobsDir: variable("SERVICE_JOBS_DIR", path, ({ home }) => join(home, ".service", "jobs"), {
    meaning: "Directory of the job records and event logs",
  }),
  jobTtl: variable("SERVICE_JOB_TTL", integer(1, 31_536_000), "86400", {
    meaning: "Seconds a job may wait, and seconds its record is kept after its end",
  }),
  maxParallelJobs: variable("SERVICE_MAX_PARALLEL_JOBS", integer(1, 1000), "3", {
    meaning: "Jobs that run at once",
  }),
  maxQueuedJobs: variable("SERVICE_MAX_QUEUED_JOBS", integer(1, 1_000_000), "10000", {
    meaning: "Jobs that may wait; beyond it submissions get 503",
  }),
  eventLogMaxBytes: variable("SERVICE_EVENT_LOG_MAX_BYTES", integer(65_536, 10_737_418_240), "67108864", {
    meaning: "Size in bytes of a job's event log past which thinking and text are left out",
  }),
  podName: variable("SERVICE_POD_NAME", instanceName, ({ hostname }) => hostname, {
    meaning: "Name of this instance, recorded on each job",
  }),
  defaultProfile: variable("SERVICE_DEFAULT_PROFILE", profileName.nullable(), null, {
    meaning:
      "Profile of a task that no routing rule matches; unset: HOOKS_PROFILE if the hook package has it, else `code`",
  }),
  sharedFsRoot: variable("SERVICE_SHARED_FS_ROOT", optionalPath, null, {
    meaning:
      "Shared read-write file system; jobs' configuration goes under {root}/jobs/, and file_path must lie under it",
  }),
};

/** The agent CLI, its time limits and its model credentials. */
export const agentVariables = {
  agentCliBinary: variable("SERVICE_AGENT_CLI_BINARY", text, "claude", {
    meaning:
      "Path or name of the agent CLI. With `claude` it is the one on PATH if svc supports its version, else the one that was installed with svc",
  }),
  agentCliTimeout: variable("SERVICE_AGENT_CLI_TIMEOUT", integer(1, 604_800), "3600", {
    meaning: "Seconds a job's agent may run, unless its profile says otherwise",
  }),
  agentCliFirstOutputTimeout: variable("SERVICE_AGENT_CLI_FIRST_OUTPUT_TIMEOUT", seconds, "300", {
    meaning: "Seconds from the prompt to the model's first answer; 0: no limit",
  }),
  agentCliIdleTimeout: variable("SERVICE_AGENT_CLI_IDLE_TIMEOUT", seconds, "1200", {
    meaning: "Longest silence of the agent in seconds; 0: no limit",
  }),
  questionLive: variable("SERVICE_QUESTION_LIVE", integer(0, 2_000_000), "120", {
    meaning:
      "Seconds that an agent's process is kept while its question has no answer; then the job is parked without one",
  }),
  questionTtl: variable("SERVICE_QUESTION_TTL", integer(1, 2_592_000), "86400", {
    meaning: "Seconds until a job fails whose agent's question nobody has answered",
  }),
  limitJitter: variable("SERVICE_LIMIT_JITTER", integer(1, 86_400), "60", {
    meaning: "Most seconds after the reset of a usage limit until a job that waits for it goes on",
  }),
  limitPauses: variable("SERVICE_LIMIT_PAUSES", listOfSeconds, "900,1800,3600", {
    meaning: "Seconds that a job waits for a usage limit without a reset time: the first time, the next, …",
  }),
  limitWaits: variable("SERVICE_LIMIT_WAITS", integer(0, 1000), "5", {
    meaning: "How often a job waits for a usage limit; at the next one it fails",
  }),
  limitTtl: variable("SERVICE_LIMIT_TTL", integer(1, 31_536_000), "86400", {
    meaning: "Seconds after its first usage limit beyond which a job waits for none",
  }),
  overloadRetries: variable("SERVICE_OVERLOAD_RETRIES", integer(0, 1000), "3", {
    meaning: "How often an agent goes on whose model answered an error or could not be reached",
  }),
  overloadPauses: variable("SERVICE_OVERLOAD_PAUSES", listOfSeconds, "5,20,60", {
    meaning: "Seconds before it goes on: the first time, the next, …",
  }),
  agentCliResultGrace: variable("SERVICE_AGENT_CLI_RESULT_GRACE", seconds, "30", {
    meaning: "Seconds the agent has to exit after its result",
  }),
  agentCliKillGrace: variable("SERVICE_AGENT_CLI_KILL_GRACE", seconds, "10", {
    meaning: "Seconds between SIGTERM and SIGKILL",
  }),
  agentHome: variable("AGENT_CLI_HOME_DIR", path, ({ home }) => home, { meaning: "HOME of the agent CLI" }),
  agentSandbox: variable("SERVICE_AGENT_SANDBOX", oneOf(["auto", "bwrap", "landlock", "off"]), "auto", {
    meaning:
      "What each agent is kept in: `bwrap` (namespaces), `landlock` (where those are refused), `off`, or `auto`: the first of them that works here",
  }),
  agentSandboxHosts: variable("SERVICE_AGENT_SANDBOX_HOSTS", hosts, "", {
    meaning:
      "Comma-separated hosts that every agent may reach beside the model: names, `name:port` (also of this machine), `*.name`, `npm`, `pypi`, `debian`, `crates`, `go`, `github`, or `*` for every public one",
  }),
  setupHosts: variable("SERVICE_SETUP_HOSTS", hosts, "npm,pypi,crates,go,debian", {
    meaning:
      "Comma-separated hosts that the setup of a repository may name (`hosts` of `.svc/setup.yml`), and that a setup with plain secrets reaches besides theirs; as in SERVICE_AGENT_SANDBOX_HOSTS",
  }),
  setupUnsandboxed: variable("SERVICE_SETUP_UNSANDBOXED", flag, "false", {
    meaning: "Run the setup of a repository also where agents run without a sandbox",
  }),
  envCacheBytes: variable("SERVICE_ENV_CACHE_BYTES", integer(0, 2 ** 50), "21474836480", {
    meaning:
      "Bytes that warm environments (`cache` of a setup) may take; those least recently used go first; 0: none are kept",
  }),
  portRange: variable("SERVICE_PORT_RANGE", portRange, "20000-29999", {
    meaning: "Ports of which each running job gets ten, PORT and the next ones, on this machine",
  }),
  secretsKey: variable("SERVICE_SECRETS_KEY", secretsKey.nullable(), null, {
    meaning:
      "Key that secrets are encrypted with, 32 characters or more, the same on all instances; required for them with KV_URL. Unset: `secrets.key` in SERVICE_JOBS_DIR",
    secret: true,
  }),
  secretsUnsandboxed: variable("SERVICE_SECRETS_UNSANDBOXED", variableNames, "", {
    meaning:
      "Comma-separated names of secrets whose real values jobs get in place of placeholders where they run without a sandbox",
  }),
  agentSandboxRead: variable("SERVICE_AGENT_SANDBOX_READ", paths, "", {
    meaning: "Comma-separated directories that every agent may read",
  }),
  agentSandboxWrite: variable("SERVICE_AGENT_SANDBOX_WRITE", paths, "", {
    meaning: "Comma-separated directories that every agent may write",
  }),
  agentEnv: variable("SERVICE_AGENT_ENV", variableNames, "", {
    meaning: "Comma-separated names of further variables that the agent gets",
  }),
  agentOauthToken: variable("AGENT_CLI_OAUTH_TOKEN", optional, null, {
    meaning: "Model credential, long-lived token; takes precedence over MODEL_API_*",
    secret: true,
    fallbacks: ["CLAUDE_CODE_OAUTH_TOKEN"],
  }),
  modelAuthToken: variable("MODEL_API_AUTH_TOKEN", optional, null, {
    meaning: "Model credential, static key",
    secret: true,
    fallbacks: ["ANTHROPIC_AUTH_TOKEN"],
  }),
  modelApiKey: variable("ANTHROPIC_API_KEY", optional, null, {
    meaning: "Model credential in its native name",
    secret: true,
  }),
  allowNoModelCredential: variable("SERVICE_ALLOW_NO_MODEL_CREDENTIAL", flag, "false", {
    meaning: "Accept jobs and chats although no model credential is known here",
  }),
  modelBaseUrl: variable("MODEL_API_BASE_URL", httpUrl.nullable(), null, {
    meaning: "Model endpoint other than the provider's",
    fallbacks: ["ANTHROPIC_BASE_URL"],
  }),
};
