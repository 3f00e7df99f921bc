import type { ServerEventBus } from "@modelcontextprotocol/server";
import type { Definitions } from "../contract/operation.ts";
import type { Route } from "../http/route.ts";
import type { Log } from "../lib/log.ts";
import { rpcFailure } from "./rpc-failure.ts";
import type { NewServer } from "./server.ts";

export type McpOptions = {
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
  /** Path under which a proxy serves this, as in `/bridge`, with its own address without it; default none. */
  under?: string | undefined;
  /** How many sessions of /sse may be open at a time; default 1000. */
  maxSessions?: number;
};

export type McpRoutesOptions = Omit<McpOptions, "newServer"> & { newServer: () => Promise<NewServer> };

/** MCP over HTTP, for `createApp`. The SDK takes a tenth of a start: the first request loads it. */
export const mcpRoutes = (options: McpRoutesOptions): Route[] => {
  let loading: ReturnType<typeof loadHandlers> | undefined;
  const by =
    (name: "streamable" | "open" | "receive"): Route["handle"] =>
    async (call) =>
      (await (loading ??= loadHandlers(options)))[name](call);
  const routes: Pick<Route, "method" | "path" | "handle" | "refusing">[] = [
    { method: "get", path: "/mcp", handle: by("streamable"), refusing: true },
    { method: "post", path: "/mcp", handle: by("streamable") },
    { method: "delete", path: "/mcp", handle: by("streamable"), refusing: true },
    { method: "get", path: "/sse", handle: by("open") },
    // A client of /sse posts to where the proxy has it, also where it has reached this service directly.
    ...[...new Set(["", options.under ?? ""])].map((under) => ({
      method: "post" as const,
      path: `${under}/messages`,
      handle: by("receive"),
    })),
  ];
  return routes.map((route) => ({
    ...route,
    crossOrigin: true,
    failures: { under: route.path, reply: rpcFailure },
  }));
};

const loadHandlers = async (asked: McpRoutesOptions) => {
  const [{ streamableHandler }, { sseHandlers }, newServer] = await Promise.all([
    import("./streamable-http.ts"),
    import("./sse.ts"),
    asked.newServer(),
  ]);
  const options = { ...asked, newServer };
  return { streamable: streamableHandler(options), ...sseHandlers(options) };
};
