import { Client as OlderClient } from "@modelcontextprotocol/sdk/client/index.js";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { operations, toolNames } from "../contract/operations.ts";
import { connected, startDoors } from "./mcp.fixture.ts";

const key = "a key of thé tests";

const ways = [
  ["/mcp", "auto"],
  ["/mcp", "legacy"],
  ["/sse", "legacy"],
] as const;

/** What every client sees, whatever its age and way in. */
type AnyClient = {
  listTools: () => Promise<{ tools: { name: string }[] }>;
  callTool: (call: { name: string; arguments?: Record<string, unknown> }) => Promise<unknown>;
};

const driven = async (client: AnyClient): Promise<void> => {
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toEqual(toolNames);

  const run = await call(client, "run_task", { task: "do it" });
  expect(run.isError ?? false).toBe(false);
  const { job } = operations.run_task.output.parse(run.structuredContent);
  expect(JSON.parse(run.text)).toEqual(run.structuredContent);

  const list = await call(client, "list_jobs", { limit: 5 });
  expect(list.structuredContent).toMatchObject({ success: true, count: 1, jobs: [{ id: job.id }] });
  expect((await call(client, "list_profiles")).structuredContent).toMatchObject({ success: true, count: 1 });

  // The tools were listed: the client checks every structured result against its schema, and must not refuse failures.
  const failure = { success: false, error: "There is no job nowhere", code: "job_not_found" };
  const missing = await call(client, "get_job", { job_id: "nowhere" });
  expect(missing).toMatchObject({ isError: true, structuredContent: failure });
  expect(JSON.parse(missing.text)).toEqual(failure);
  const unknown = await call(client, "get_job", { job: "x" });
  expect(unknown.structuredContent).toEqual({
    success: false,
    error: "job_id: is required; job: is not known, did you mean job_id?",
    code: "invalid_request",
  });
  await expect(client.callTool({ name: "run_tsk", arguments: {} })).rejects.toThrow(
    'There is no tool "run_tsk"; did you mean run_task?',
  );
};

const call = async (client: AnyClient, name: string, args: Record<string, unknown> = {}) => {
  const result = (await client.callTool({ name, arguments: args })) as {
    isError?: boolean;
    structuredContent: unknown;
    content: { type: string; text: string }[];
  };
  expect(result.content).toHaveLength(1);
  return { ...result, text: result.content[0]?.text ?? "" };
};

test.each([
  ["/mcp", "auto", "2026-07-28"],
  ["/mcp", "legacy", "2025-11-25"],
  ["/sse", "legacy", "2025-11-25"],
] as const)("the official client works over %s, era %s", async (path, era, version) => {
  const { url } = await startDoors();
  const client = await connected(url, { path, era });
  expect(client.getNegotiatedProtocolVersion()).toBe(version);
  expect(client.getServerVersion()).toMatchObject({ name: "svc", version: "1.2.3" });
  expect(client.getInstructions()).toContain("wait_for_job");
  await driven(client);
  await client.close();
});

test.each(["/mcp", "/sse"])("the official client of the first generation works over %s", async (path) => {
  const { url } = await startDoors();
  const client = new OlderClient({ name: "older", version: "1" });
  const Transport = path === "/sse" ? SSEClientTransport : StreamableHTTPClientTransport;
  await client.connect(new Transport(new URL(url + path)) as Parameters<typeof client.connect>[0]);
  await driven(client as AnyClient);
  await client.close();
});

test.each([
  ["/mcp", {}, true],
  ["/sse", {}, true],
  ["/mcp", { "x-api-key": Buffer.from(key).toString("latin1") }, false],
  ["/sse", { authorization: `Bearer ${Buffer.from(key).toString("latin1")}` }, false],
] as const)(
  "a key is taken over %s with headers %o, in the address: %s",
  async (path, headers, inAddress) => {
    const { url, contexts } = await startDoors({ apiKeys: [key] });
    const query = inAddress ? `?api_key=${encodeURIComponent(key)}` : "";
    const client = await connected(url, { path: path + query, era: "legacy", headers });
    await call(client, "run_task", { task: "do it" });
    expect(contexts[0]?.principal).toMatch(/^[\da-f]{16}$/);
    await client.close();
  },
);

test("a service that has restarted on the same port is asked on by the same client, in both eras", async () => {
  const first = await startDoors();
  const clients = [await connected(first.url), await connected(first.url, { era: "legacy" })];
  for (const client of clients) await call(client, "list_jobs");
  await first.server.close(0);
  // A process that is being started has a copy of the socket.
  await until(() => startDoors({ port: first.port }));
  for (const client of clients) {
    // The first request may still meet the connection of before.
    const list = await until(() => call(client, "list_jobs"));
    expect(list.structuredContent).toMatchObject({ count: 0 });
    await client.close();
  }
});

test("the idempotency key of a call's _meta reaches the operation that it matters to", async () => {
  const { url, contexts } = await startDoors();
  for (const [path, era] of ways) {
    const client = await connected(url, { path, era });
    const _meta = { "svc/idempotency-key": "k-1" };
    await client.callTool({ name: "run_task", arguments: { task: "x" }, _meta });
    expect(contexts.at(-1)?.idempotencyKey).toBe("k-1");
    await client.callTool({ name: "wait_for_job", arguments: { job_id: "progress" }, _meta });
    expect(contexts.at(-1)?.idempotencyKey).toBe(undefined);
    await client.close();
  }
});

test("progress is sent, with rising numbers, only to a client that asks for it", async () => {
  const { url, contexts, waiting } = await startDoors();
  for (const [path, era] of ways) {
    const client = await connected(url, { path, era });
    await client.callTool({ name: "run_task", arguments: { task: "x" } });
    waiting.received = false;
    const received: { progress: number; message?: string | undefined }[] = [];
    const result = await client.callTool(
      { name: "wait_for_job", arguments: { job_id: "progress" } },
      {
        onprogress: (note) => {
          received.push(note);
          waiting.received = true;
        },
      },
    );
    expect(result.isError ?? false).toBe(false);
    expect(received[0]).toEqual({ progress: 1, message: "step 1" });
    await client.callTool({ name: "wait_for_job", arguments: { job_id: "progress" } });
    expect(contexts.at(-1)?.progress).toBe(undefined);
    await client.close();
  }
});
