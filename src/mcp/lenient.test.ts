import { request as httpRequest } from "node:http";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { rpc, startDoors, toolCall } from "./mcp.fixture.ts";

const message = (method: string, params: unknown, id: number | null = 1) => ({
  jsonrpc: "2.0",
  ...(id !== null && { id }),
  method,
  params,
});
const clientInfo = { name: "x", version: "1", title: null, icons: null };
const protocolVersion = "2025-06-18";
const later = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": clientInfo,
  "io.modelcontextprotocol/clientCapabilities": {},
};

const success = { structuredContent: { success: true } };

const nulls: [string, object, object][] = [
  ["params", message("tools/list", null), { tools: expect.any(Array) }],
  ["a cursor", message("tools/list", { cursor: null, _meta: null }), { tools: expect.any(Array) }],
  [
    "capabilities",
    message("initialize", { protocolVersion, capabilities: { roots: null, sampling: null }, clientInfo }),
    { serverInfo: expect.anything() },
  ],
  ["arguments", message("tools/call", { name: "list_profiles", arguments: null }), success],
  [
    "a token",
    message("tools/call", { name: "list_jobs", arguments: {}, _meta: { progressToken: null } }),
    success,
  ],
  [
    "what is not given",
    toolCall("list_jobs", { status: null, limit: null, cursor: null, since: null }),
    success,
  ],
  [
    "what only REST has",
    toolCall("run_task", { task: "x", profile: null, wait: null, options: null }),
    success,
  ],
  ["a text for a number", toolCall("list_jobs", { limit: "5" }), success],
  ["a text for a boolean", toolCall("cleanup_worktrees", { max_age_hours: "24", force: "false" }), success],
];
test("null is as good as nothing, and a text as good as its number, over /mcp", async () => {
  const { url } = await startDoors();
  for (const [name, body, result] of nulls)
    expect([name, await (await rpc(url, body)).json()]).toMatchObject([name, { result }]);
  expect((await rpc(url, message("notifications/initialized", null, null))).status).toBe(202);
  const version = { "mcp-protocol-version": "2025-03-26" };
  const batch = nulls.filter(([name]) => name !== "capabilities").map(([, body], id) => ({ ...body, id }));
  const answers = [...(await (await rpc(url, batch, version)).text()).matchAll(/^data: (\{.*)$/gm)].map(
    ([, data = ""]) => JSON.parse(data) as { result?: { isError?: boolean } },
  );
  expect(answers.map(({ result }) => result?.isError ?? result === undefined)).toEqual(
    batch.map(() => false),
  );
  const modern = await rpc(url, message("tools/call", { name: "list_jobs", arguments: null, _meta: later }), {
    "mcp-protocol-version": "2026-07-28",
    "mcp-method": "tools/call",
    "mcp-name": "list_jobs",
  });
  expect(await modern.json()).toMatchObject({ result: success });
});

test("it is over /sse", async () => {
  const { url } = await startDoors();
  const leaving = new AbortController();
  const answer = await fetch(`${url}/sse`, { signal: leaving.signal });
  let received = "";
  const reading = (async () => {
    for await (const chunk of answer.body ?? []) received += Buffer.from(chunk).toString();
  })();
  reading.catch(() => undefined);
  const endpoint = await until(() => /^data: (\/messages.*)$/m.exec(received)?.[1]);
  for (const [at, [, body]] of nulls.entries())
    expect((await rpc(url + endpoint, { ...body, id: at })).status).toBe(202);
  const results = await until(() => {
    const answers = [...received.matchAll(/^data: (\{.*)$/gm)].map(
      ([, data = ""]) => JSON.parse(data) as { id: number; result?: object },
    );
    return answers.length === nulls.length ? answers : undefined;
  });
  for (const [at, [name, , result]] of nulls.entries())
    expect([name, results.find(({ id }) => id === at)]).toMatchObject([name, { result }]);
  leaving.abort();
});

/** With no `Accept` at all, which fetch cannot send. */
const ask = (url: string, body: unknown, accept: string | null, headers: Record<string, string> = {}) =>
  new Promise<{ status: number | undefined; type: string; text: string }>((done, fail) => {
    const sent = JSON.stringify(body);
    const asked = httpRequest(`${url}/mcp`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "content-length": Buffer.byteLength(sent),
        ...(accept !== null && { accept }),
        ...headers,
      },
    });
    asked.on("response", (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (piece: string) => (text += piece));
      response.on("end", () =>
        done({ status: response.statusCode, type: response.headers["content-type"] ?? "", text }),
      );
    });
    asked.on("error", fail).end(sent);
  });

const asJson = [
  "application/json",
  "application/json;q=0.9",
  "application/*",
  "APPLICATION/JSON",
  "*/*",
  null,
];
const asStream = ["text/event-stream", "text/*", "text/event-stream; charset=utf-8"];

test("each form that a client takes is the form of its answer, in both eras", async () => {
  const { url } = await startDoors();
  const eras: [object, Record<string, string>][] = [
    [
      message("initialize", { protocolVersion, capabilities: {}, clientInfo: { name: "x", version: "1" } }),
      {},
    ],
    [toolCall("list_jobs", {}), { "mcp-protocol-version": protocolVersion }],
    [
      message("tools/call", { name: "list_jobs", arguments: {}, _meta: { ...later } }),
      { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "list_jobs" },
    ],
  ];
  for (const [body, headers] of eras) {
    for (const accept of asJson) {
      const { status, type, text } = await ask(url, body, accept, headers);
      expect([accept, status, type]).toEqual([accept, 200, expect.stringContaining("application/json")]);
      expect(JSON.parse(text)).toMatchObject({ id: 1, result: expect.anything() });
    }
    for (const accept of asStream) {
      const { status, type, text } = await ask(url, body, accept, headers);
      expect([accept, status, type]).toEqual([accept, 200, expect.stringContaining("text/event-stream")]);
      expect(text).toMatch(/^data: \{.*"result"/m);
    }
  }
  expect((await ask(url, message("notifications/initialized", {}, null), null)).status).toBe(202);
});

test("a client that takes JSON only gets all of a batch, and of a call that reports progress, in JSON", async () => {
  const { url, waiting } = await startDoors();
  const batch = [toolCall("list_jobs", {}), { ...toolCall("list_profiles", {}), id: 2 }];
  const both = await ask(url, batch, "application/json", { "mcp-protocol-version": "2025-03-26" });
  expect((JSON.parse(both.text) as { id: number }[]).map(({ id }) => id)).toEqual([1, 2]);
  const leaving = new AbortController();
  const left = rpc(
    url,
    [toolCall("wait_for_job", { job_id: "x" })],
    { accept: "application/json" },
    leaving.signal,
  );
  left.catch(() => undefined);
  await until(() => waiting.now === 1);
  leaving.abort();
  await until(() => waiting.now === 0);
  const call = toolCall("run_task", { task: "x" }, { _meta: { progressToken: 1 } });
  const { type, text } = await ask(url, call, "application/json");
  expect([type, JSON.parse(text)]).toMatchObject([
    expect.stringContaining("json"),
    { id: 1, result: success },
  ]);
});
