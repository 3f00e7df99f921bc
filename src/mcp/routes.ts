import type { ServerEventBus } from "@modelcontextprotocol/server";
import type { Definitions } from "../contract/operation.ts";
import type { Route } from "../http/route.ts";
import type { Log } from "../lib/log.ts";
import { rpcFailure } from "./rpc-failure.ts";
import type { NewServer } from "./server.ts";
import { sseRoutes } from "./sse.ts";
import { streamableRoutes } from "./streamable-http.ts";

export type McpRoutesOptions = {
  newServer: NewServer;
  /** Where callers have scopes: calls beyond them are refused with 403. Absent: they fail as tool results. */
  operations?: Definitions;
  log: Log;
  /** Aborted when the service shuts down; ends streams that have no end of their own. */
  closing: AbortSignal;
  /** How long a stream may be silent before it sends a comment; default 15 s. */
  pingEveryMs?: number;
  /** Where a server announces changes of its tools or resources; the product's never change. */
  bus?: ServerEventBus;
  /** How many sessions of /sse may be open at a time; default 1000. */
  maxSessions?: number;
};

/** MCP over HTTP, for `createApp`. */
export const mcpRoutes = (options: McpRoutesOptions): Route[] =>
  [...streamableRoutes(options), ...sseRoutes(options)].map((route) => ({
    ...route,
    crossOrigin: true,
    failures: { under: route.path, reply: rpcFailure },
  }));
