import {
  address,
  apiKey,
  apiKeys,
  flag,
  httpUrl,
  integer,
  oneOf,
  optional,
  serviceUrl,
  serviceUrls,
  text,
  usd,
  path,
} from "../formats.ts";
import { variable } from "../variable.ts";
import { parseKvUrl, readKvOptions } from "../kv-url.ts";

/** Where and to whom the service listens. */
export const serverVariables = {
  host: variable("SERVICE_HOST", address, "127.0.0.1", {
    meaning:
      "Address to listen on, and to which the `svc` commands connect; beyond loopback it needs SERVICE_API_KEYS",
  }),
  port: variable("SERVICE_PORT", integer(0, 65_535), "8200", { meaning: "Port to listen on; 0: a free one" }),
  transport: variable("SERVICE_TRANSPORT", oneOf(["sse", "stdio"]), "sse", {
    meaning:
      "How clients reach the service: `sse` (HTTP: REST, /mcp and /sse) or `stdio` (MCP on standard input and output)",
  }),
  apiKeys: variable("SERVICE_API_KEYS", apiKeys, "", {
    meaning: "Comma-separated keys; when set, every path except /health and /ready requires one",
    secret: true,
  }),
  apiKey: variable("SERVICE_API_KEY", apiKey.nullable(), null, {
    meaning: "Key that the `svc` commands send; unset: the first of SERVICE_API_KEYS",
    secret: true,
  }),
  bridgeUrl: variable("SERVICE_BRIDGE_URL", serviceUrl.nullable(), null, {
    meaning:
      "URL of the transcript service (`bridge serve`) whose sessions the page in the browser shows; unset: none",
  }),
  allowOpen: variable("SERVICE_ALLOW_OPEN", flag, "false", {
    meaning: "Permit listening beyond loopback without keys",
  }),
  logLevel: variable(
    "SERVICE_LOG_LEVEL",
    oneOf(["fatal", "error", "warn", "info", "debug", "trace", "silent"]),
    "info",
    { meaning: "Least severe level that is logged: fatal, error, warn, info, debug, trace or silent" },
  ),
  logFormat: variable("SERVICE_LOG_FORMAT", oneOf(["text", "json"]).nullable(), null, {
    meaning: "How the log is written: `text` for people, or `json`; unset: text on a terminal, else JSON",
  }),
};

/** The agent's OpenTelemetry settings, and where telemetry and costs are kept. */
export const telemetryVariables = {
  otelEnabled: variable("SERVICE_OTEL_ENABLED", flag, "true", {
    meaning: "Have the agent report telemetry, and receive some at /otlp",
  }),
  otelEndpoint: variable("OTEL_EXPORTER_OTLP_ENDPOINT", httpUrl.nullable(), null, {
    meaning: "Collector that the agent reports to; unset: the service itself",
  }),
  otelProtocol: variable(
    "OTEL_EXPORTER_OTLP_PROTOCOL",
    oneOf(["grpc", "http", "http/protobuf", "http/json"]).nullable(),
    null,
    {
      meaning:
        "Protocol of the collector: grpc, http/protobuf or http/json; http means http/protobuf; unset: grpc",
    },
  ),
  otlpToken: variable("SERVICE_OTLP_TOKEN", apiKey.nullable(), null, {
    meaning:
      "Token with which a collector reports to the service at /otlp; it opens nothing else; unset: it uses an API key",
    secret: true,
  }),
  telemetryDb: variable(
    "SERVICE_TELEMETRY_DB",
    text.regex(/^postgres(ql)?:\/\/./, "must begin with postgres:// or postgresql://").nullable(),
    null,
    {
      meaning:
        "PostgreSQL for telemetry and costs: `postgres://user:password@host/database`; unset: a SQLite file `telemetry.db` beside the instance's jobs",
      secret: true,
    },
  ),
  telemetryRetention: variable("SERVICE_TELEMETRY_RETENTION", integer(60, 315_360_000), "7776000", {
    meaning: "Seconds that metrics, events and spans are kept; runs and their costs are kept for 400 days",
  }),
  otelLogPrompts: variable("SERVICE_OTEL_LOG_PROMPTS", flag, "false", {
    meaning: "Log prompts in the agent's telemetry",
  }),
  otelLogToolDetails: variable("SERVICE_OTEL_LOG_TOOL_DETAILS", flag, "true", {
    meaning: "Log tool details in the agent's telemetry",
  }),
};

/** Budgets of a day. */
export const budgetVariables = {
  budgetDayUsd: variable("SERVICE_BUDGET_DAY_USD", usd.nullable(), null, {
    meaning: "USD that all jobs and chat turns may cost in a day (UTC) before new ones are refused",
  }),
  budgetKeyDayUsd: variable("SERVICE_BUDGET_KEY_DAY_USD", usd.nullable(), null, {
    meaning: "USD that those of one API key may cost in a day",
  }),
  budgetImputed: variable("SERVICE_BUDGET_IMPUTED", flag, "false", {
    meaning: "Count costs that are computed but not billed (AGENT_CLI_OAUTH_TOKEN) towards the budgets",
  }),
};

/** The backend that traces are shipped to. */
export const tracingVariables = {
  tracingHost: variable("TRACING_HOST", httpUrl.nullable(), null, {
    meaning:
      "Tracing backend: its host, or with a path any OTLP/HTTP endpoint; unset: with both keys the vendor's cloud, https://cloud.langfuse.com, else nothing is sent",
  }),
  tracingPublicKey: variable("TRACING_PUBLIC_KEY", optional, null, {
    meaning: "Public key of the tracing backend",
    secret: true,
  }),
  tracingSecretKey: variable("TRACING_SECRET_KEY", optional, null, {
    meaning: "Secret key of the tracing backend",
    secret: true,
  }),
  tracingBasicAuth: variable("TRACING_BASIC_AUTH", optional, null, {
    meaning:
      "base64 of `public_key:secret_key`, instead of the two keys; also for the collector of `deploy/`",
    secret: true,
  }),
};

const kvUrl = text
  .superRefine((value, context) => {
    const parsed = parseKvUrl(value);
    if (typeof parsed === "string") context.addIssue(parsed);
  })
  .nullable();

const kvOptionsFile = path
  .superRefine((value, context) => {
    const options = readKvOptions(value);
    if (typeof options === "string") context.addIssue(options);
  })
  .nullable();

/** Several instances on one key-value store. */
export const clusterVariables = {
  kvUrl: variable("KV_URL", kvUrl, null, {
    meaning:
      "Redis or Valkey that the instances share, as in `redis://:password@host:6379/0`, with TLS `rediss://`; unset: one instance, jobs in files",
    secret: true,
  }),
  kvOptionsFile: variable("KV_OPTIONS_FILE", kvOptionsFile, null, {
    meaning: "File of JSON with options of ioredis for Sentinel, a Cluster (`cluster`: its nodes) or TLS",
  }),
  kvKeyPrefix: variable(
    "KV_KEY_PREFIX",
    text.regex(/^[A-Za-z0-9_.-]{1,64}$/, "must be 1 to 64 letters, digits and `_.-`"),
    "service",
    { meaning: "First part of every key in the key-value store" },
  ),
  kvEventLogMaxBytes: variable("SERVICE_KV_EVENT_LOG_MAX_BYTES", integer(65_536, 1_073_741_824), "4194304", {
    meaning:
      "Size in bytes of a job's event log in the key-value store past which thinking and text are left out",
  }),
  address: variable("SERVICE_ADDRESS", serviceUrl.nullable(), null, {
    meaning:
      "URL at which other machines reach this instance, for `svc agents`; unset: where it listens, unless that is all addresses",
  }),
  remotes: variable("SERVICE_REMOTES", serviceUrls, "", {
    meaning:
      "Comma-separated URLs of the instances that `svc agents` shows; unset: those that kubectl or the service finds",
  }),
  instanceLease: variable("SERVICE_INSTANCE_LEASE", integer(2, 300), "10", {
    meaning:
      "Seconds until an instance's lease expires without renewal; after half as long again the others settle its jobs",
  }),
  lostInstanceGrace: variable("SERVICE_LOST_INSTANCE_GRACE", integer(0, 86_400), "300", {
    meaning: "Seconds that jobs bound to a worktree of a lost instance wait for that instance to return",
  }),
  drainTimeout: variable("SERVICE_DRAIN_TIMEOUT", integer(0, 86_400), "300", {
    meaning:
      "Seconds that running jobs, chat turns and completions get to finish after SIGTERM before they are ended; 0: none",
  }),
};
