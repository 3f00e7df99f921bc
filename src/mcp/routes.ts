import { preflightRoute } from "../http/access.ts";
import type { Route } from "../http/route.ts";
import type { McpRoutesOptions } from "./options.ts";
import { sseRoutes } from "./sse/routes.ts";
import { streamableRoutes } from "./streamable-http.ts";

export type { McpRoutesOptions } from "./options.ts";

/** The MCP doors over HTTP, to be handed to `createApp`. */
export const mcpRoutes = (options: McpRoutesOptions): Route[] =>
  [
    ...streamableRoutes(options),
    ...sseRoutes(options),
    preflightRoute("/mcp", ["GET", "POST", "DELETE"], ["POST"]),
    preflightRoute("/sse", ["GET"]),
    preflightRoute("/messages", ["POST"]),
  ].map((route) => ({ ...route, crossOrigin: true }));
