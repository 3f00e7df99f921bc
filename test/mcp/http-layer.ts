import { randomUUID } from "node:crypto";
import { createTestApp } from "../../src/http/app.fixture.ts";
import { listen } from "../../src/http/server.ts";
import { type McpOptions, mcpRoutes } from "../../src/mcp/routes.ts";
import { afterFile } from "../cleanup.ts";

type Options = Pick<McpOptions, "newServer"> & Partial<McpOptions> & { apiKeys?: string[] };

/** The service's own HTTP layer on a free loopback port, with an MCP server of the test behind it. Closed after the file. */
export const serveMcp = async ({ apiKeys = [], newServer, ...mcp }: Options) => {
  const closing = new AbortController();
  const log = { debug: ignore, info: ignore, warn: ignore, error: ignore };
  const { app } = createTestApp({
    apiKeys,
    newRequestId: randomUUID,
    closing: closing.signal,
    routes: mcpRoutes({ newServer: async () => newServer, log, closing: closing.signal, ...mcp }),
  });
  const server = await listen(app, { host: "127.0.0.1", port: 0 });
  afterFile(async () => {
    closing.abort();
    await server.close(0);
  });
  return server;
};

const ignore = (): void => undefined;
