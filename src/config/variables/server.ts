import { address, apiKey, apiKeys, flag, integer, oneOf } from "../formats.ts";
import { variable } from "../variable.ts";

/** Where and to whom the service listens. */
export const serverVariables = {
  host: variable(
    "SERVICE_HOST",
    address,
    "127.0.0.1",
    "Address to listen on, and to which the `svc` commands connect; beyond loopback it needs SERVICE_API_KEYS",
  ),
  port: variable("SERVICE_PORT", integer(0, 65_535), "8200", "Port to listen on; 0: a free one"),
  transport: variable(
    "SERVICE_TRANSPORT",
    oneOf(["sse", "stdio"]),
    "sse",
    "How clients reach the service: `sse` (HTTP: REST, /mcp and /sse) or `stdio` (MCP on standard input and output)",
  ),
  apiKeys: variable(
    "SERVICE_API_KEYS",
    apiKeys,
    "",
    "Comma-separated keys; when set, every path except /health and /ready requires one",
    { secret: true },
  ),
  apiKey: variable(
    "SERVICE_API_KEY",
    apiKey.nullable(),
    null,
    "Key that the `svc` commands send; unset: the first of SERVICE_API_KEYS",
    { secret: true },
  ),
  allowOpen: variable("SERVICE_ALLOW_OPEN", flag, "false", "Permit listening beyond loopback without keys"),
  logLevel: variable(
    "SERVICE_LOG_LEVEL",
    oneOf(["fatal", "error", "warn", "info", "debug", "trace", "silent"]),
    "info",
    "Least severe level that is logged: fatal, error, warn, info, debug, trace or silent",
  ),
};
