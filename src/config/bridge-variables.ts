import {
  address,
  apiKey,
  apiKeys,
  flag,
  httpUrl,
  integer,
  oneOf,
  optional,
  path,
  paths,
  text,
} from "./formats.ts";
import type { SettingsOf } from "./resolve.ts";
import { clusterVariables, serverVariables } from "./variables/server.ts";
import { variable } from "./variable.ts";

/** Where and to whom the transcript service listens. */
const doorVariables = {
  transport: variable("BRIDGE_TRANSPORT", oneOf(["stdio", "sse"]), "stdio", {
    meaning:
      "How clients reach the service: `stdio` (MCP on standard input and output) or `sse` (HTTP: /mcp and /sse)",
  }),
  host: variable("BRIDGE_HOST", address, "127.0.0.1", {
    meaning: "Address to listen on; beyond loopback it needs BRIDGE_API_KEYS",
  }),
  port: variable("BRIDGE_PORT", integer(0, 65_535), "8100", { meaning: "Port to listen on; 0: a free one" }),
  apiKeys: variable("BRIDGE_API_KEYS", apiKeys, "", {
    meaning: "Comma-separated keys; empty: no authentication",
    secret: true,
  }),
  allowOpen: variable("BRIDGE_ALLOW_OPEN", flag, "false", {
    meaning: "Permit listening beyond loopback without keys",
  }),
  logLevel: variable("BRIDGE_LOG_LEVEL", serverVariables.logLevel.schema, "info", {
    meaning: serverVariables.logLevel.meaning,
  }),
};

/** What is collected, and where it is stored. */
const collectionVariables = {
  agentHomes: variable("BRIDGE_AGENT_HOME", paths, ({ home }) => `${home}/.claude,${home}/.service`, {
    meaning:
      "Directories of Claude Code to read, separated by commas: those that hold projects/; CLAUDE_CONFIG_DIR takes the place of the first",
    fallbacks: ["CLAUDE_CONFIG_DIR"],
  }),
  codexHome: variable("BRIDGE_CODEX_HOME", path, ({ home }) => `${home}/.codex`, {
    meaning: "Directory of Codex to read: the one that holds sessions/",
    fallbacks: ["CODEX_HOME"],
  }),
  directory: variable("BRIDGE_DIR", path, ({ home }) => `${home}/.bridge`, {
    meaning: "Directory of the service's own files: the index",
  }),
  pollInterval: variable("BRIDGE_POLL_INTERVAL", integer(1, 86_400), "60", {
    meaning:
      "Seconds between two looks for changes that were not noticed at once: at directories that have changed, each sixtieth at all files",
  }),
  retentionDays: variable("BRIDGE_RETENTION_DAYS", integer(0, 36_500), "0", {
    meaning: "Days after its last update that a session is forgotten whose file is deleted; 0: never",
  }),
  redact: variable("BRIDGE_REDACT", flag, "true", {
    meaning: "Mask secrets (known token shapes, values of key-like names) in answers",
  }),
  kvUrl: clusterVariables.kvUrl,
  kvOptionsFile: clusterVariables.kvOptionsFile,
  machine: variable("BRIDGE_MACHINE", optional, null, {
    meaning:
      "With KV_URL, whose files these are: one name for all instances that read the same files; unset: an id kept in BRIDGE_DIR",
  }),
  kvKeyPrefix: clusterVariables.kvKeyPrefix,
};

/** The job orchestrator, and models for summaries and search by meaning. */
const peerVariables = {
  orchestratorUrl: variable("BRIDGE_ORCHESTRATOR_URL", httpUrl, "http://127.0.0.1:8200", {
    meaning: "The job orchestrator that dispatch_task submits to; its port follows SERVICE_PORT",
  }),
  orchestratorKey: variable("BRIDGE_ORCHESTRATOR_KEY", apiKey.nullable(), null, {
    meaning: "Key for the orchestrator",
    secret: true,
  }),
  llmBase: variable("LLM_API_BASE", httpUrl.nullable(), null, {
    meaning: "OpenAI-compatible endpoint, as in https://api.example.com/v1",
  }),
  llmKey: variable("LLM_API_KEY", apiKey.nullable(), null, {
    meaning: "Key for that endpoint",
    secret: true,
  }),
  llmEmbedModel: variable("LLM_EMBED_MODEL", optional, null, {
    meaning: "Model for search by meaning; unset: search by words",
  }),
  llmChatModel: variable("LLM_CHAT_MODEL", optional, null, {
    meaning: "Model for summaries; unset: the session's own words",
  }),
};

const words = (separator: RegExp) =>
  text.transform((value) => value.split(separator).filter((item) => item !== ""));

const oauthVariables = {
  oauthIssuer: variable("OAUTH_ISSUER_URL", httpUrl.nullable(), null, {
    meaning: "Public URL of this service, as clients use it; turns OAuth on",
  }),
  oauthClientId: variable("OAUTH_CLIENT_ID", optional, null, {
    meaning: "Only this client may sign in: clients cannot register themselves",
  }),
  oauthClientSecret: variable("OAUTH_CLIENT_SECRET", optional, null, {
    meaning: "Secret of that client",
    secret: true,
  }),
  oauthRedirectUris: variable("OAUTH_ALLOWED_REDIRECT_URIS", words(/\s*,\s*/), "", {
    meaning:
      "Redirect URIs that clients may use, separated by commas, matched exactly; empty: those they register",
  }),
  oauthScopes: variable("OAUTH_ALLOWED_SCOPES", words(/\s+/), "read dispatch", {
    meaning: "Scopes that clients may get, separated by spaces: read, dispatch",
  }),
};

/** The one table of settings of the transcript service. */
export const bridgeVariables = {
  ...doorVariables,
  ...collectionVariables,
  ...peerVariables,
  ...oauthVariables,
};

export type BridgeSettings = SettingsOf<typeof bridgeVariables>;

/** The same table under the headings of the documentation. */
export const bridgeVariableGroups = {
  Server: doorVariables,
  Collection: collectionVariables,
  "Orchestrator and models": peerVariables,
  OAuth: oauthVariables,
};
