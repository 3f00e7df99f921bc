import { randomUUID } from "node:crypto";
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { afterFile } from "../../test/cleanup.ts";
import { until } from "../../test/until.ts";
import type { RequestContext } from "../contract/operation.ts";
import { operations } from "../contract/operations.ts";
import { createTestApp, memoryHandlers } from "../http/app.fixture.ts";
import { listen } from "../http/server.ts";
import type { Log } from "../lib/log.ts";
import { answerBy } from "./answer.ts";
import { mcpRoutes, type McpRoutesOptions } from "./routes.ts";
import { createServerFactory, type NewServer } from "./server.ts";

type Options = Partial<Omit<McpRoutesOptions, "newServer">> & {
  apiKeys?: string[];
  host?: string;
  port?: number;
  wrap?: (newServer: NewServer) => NewServer;
  maxCalls?: number;
  agentMode?: boolean;
};

/** The MCP doors over handlers that keep jobs in memory, on a free port. */
export const startDoors = async ({
  apiKeys = [],
  host,
  port = 0,
  wrap = (it) => it,
  maxCalls,
  agentMode = true,
  ...rest
}: Options = {}) => {
  const jobs: Parameters<typeof memoryHandlers>[0] = new Map();
  const contexts: RequestContext[] = [];
  const closing = new AbortController();
  const lines: Record<string, unknown>[] = [];
  const write =
    (level: string) =>
    (line: object, message: string): void =>
      void lines.push({ ...line, level, message });
  const log = Object.fromEntries(
    ["debug", "info", "warn", "error"].map((level) => [level, write(level)]),
  ) as unknown as Log;
  const waiting = { now: 0, received: false };
  const handlers = {
    ...memoryHandlers(jobs, contexts),
    wait_for_job: async ({ job_id }: { job_id: string }, context: RequestContext) => {
      contexts.push(context);
      if (job_id === "bug") throw new TypeError("secret detail of the bug");
      if (job_id === "progress") {
        for (let step = 1; step <= 50; step += 1) context.progress?.(`step ${step}`);
        if (context.progress !== undefined) await until(() => waiting.received);
        return { success: true as const, job: { ...[...jobs.values()][0]!, id: job_id } };
      }
      waiting.now += 1;
      context.progress?.("waiting");
      await new Promise<void>((resolve) => context.signal.addEventListener("abort", () => resolve()));
      waiting.now -= 1;
      throw new Error("the caller has disconnected");
    },
  };
  const newServer = wrap(
    createServerFactory({
      answer: answerBy(operations, handlers, log),
      program: {
        service: { name: "svc", title: "test", version: "1.2.3" },
        instructions: "Ask wait_for_job until the job has ended.",
        operations,
        parts: { agent: agentMode },
      },
      ...(maxCalls !== undefined && { maxCalls }),
    }),
  );
  const test = createTestApp({
    handlers,
    log,
    apiKeys,
    agentMode,
    ...(host !== undefined && { host }),
    closing: closing.signal,
    newRequestId: randomUUID,
    routes: mcpRoutes({ newServer: async () => newServer, log, closing: closing.signal, ...rest }),
  });
  const server = await listen(test.app, { host: "127.0.0.1", port });
  afterFile(() => server.close(0));
  return { ...test, lines, jobs, contexts, waiting, closing, server, url: server.url, port: server.port };
};

export type Era = "auto" | "legacy";

/** An official client of the second generation, connected. */
export const connected = async (
  url: string,
  {
    path = "/mcp",
    era = "auto",
    headers = {},
  }: { path?: string; era?: Era; headers?: Record<string, string> } = {},
): Promise<Client> => {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: era } });
  const Transport = path.startsWith("/sse") ? SSEClientTransport : StreamableHTTPClientTransport;
  await client.connect(new Transport(new URL(url + path), { requestInit: { headers } }));
  return client;
};

/** A raw request of the 2025 era. */
export const rpc = (
  url: string,
  body: unknown,
  headers: Record<string, string> = {},
  signal: AbortSignal | null = null,
): Promise<Response> =>
  fetch(url.includes("/mcp") || url.includes("/messages") ? url : `${url}/mcp`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-11-25",
      ...headers,
    },
    body: typeof body === "string" ? body : JSON.stringify(body),
    signal,
  });

export const toolCall = (name: string, args: object, extra: object = {}) => ({
  jsonrpc: "2.0",
  id: 1,
  method: "tools/call",
  params: { name, arguments: args, ...extra },
});
