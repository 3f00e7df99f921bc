import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { connected, rpc, startDoors, toolCall } from "./mcp.fixture.ts";
import type { NewServer } from "./server.ts";

/** A server whose list of tools could change: only such a one is worth a lasting subscription. */
const changing = {
  wrap:
    (newServer: NewServer): NewServer =>
    (caller) => {
      const mcp = newServer(caller);
      mcp.server.registerCapabilities({ tools: { listChanged: true } });
      return mcp;
    },
};
const subscription = { notifications: { toolsListChanged: true } };

const list = { jsonrpc: "2.0", id: 7, method: "tools/list" };
const refusal = { error: "Invalid or missing API key" };

const modern = (method: string, params: object = {}) => ({
  jsonrpc: "2.0",
  id: 1,
  method,
  params: {
    ...params,
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    },
  },
});
const modernHeaders = (method: string, name?: string): Record<string, string> => ({
  "mcp-protocol-version": "2026-07-28",
  "mcp-method": method,
  ...(name !== undefined && { "mcp-name": name }),
});

test("without a key every method and path of the doors answers 401 with the documented body, before anything else", async () => {
  const { url } = await startDoors({ apiKeys: ["one key"] });
  const paths = "/mcp /sse /messages?sessionId=x /.well-known/oauth-protected-resource/mcp /register";
  for (const path of paths.split(" ")) {
    for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"]) {
      const answer = await fetch(url + path, { method });
      expect([path, method, answer.status, await answer.json()]).toEqual([path, method, 401, refusal]);
    }
  }
});

test("methods that a path has not are refused with those it has", async () => {
  const { url } = await startDoors();
  const answers = await Promise.all(
    [
      ...["GET", "HEAD", "DELETE", "PUT", "PATCH", "OPTIONS"].map((method) => ["/mcp", method]),
      ["/sse", "POST"],
      ["/messages", "GET"],
    ].map(([path = "", method = ""]) => fetch(url + path, { method })),
  );
  expect(answers.map(({ status, headers }) => [status, headers.get("allow")])).toEqual([
    ...Array.from({ length: 5 }, () => [405, "POST, OPTIONS"]),
    [204, "POST, OPTIONS"],
    [405, "GET, OPTIONS, HEAD"],
    [405, "POST, OPTIONS"],
  ]);
  for (const method of ["GET", "DELETE"]) {
    const answer = await fetch(`${url}/mcp`, { method, headers: { accept: "text/event-stream" } });
    expect([answer.status, await answer.json()]).toMatchObject([405, { jsonrpc: "2.0", id: null }]);
  }
});

test("a plain request of the older era is answered in JSON, with everything that every answer carries", async () => {
  const { url } = await startDoors();
  const answer = await rpc(url, list);
  expect(answer.status).toBe(200);
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    "content-type": "application/json",
    "x-content-type-options": "nosniff",
    "x-request-id": expect.stringMatching(/^[\da-f-]{36}$/),
  });
  expect(await answer.json()).toMatchObject({ jsonrpc: "2.0", id: 7, result: { tools: expect.any(Array) } });
});

test("an unknown method is an error of JSON-RPC, and of HTTP only in the newer era", async () => {
  const { url } = await startDoors();
  const older = await rpc(url, { ...list, method: "no/such" });
  expect([older.status, await older.json()]).toMatchObject([200, { id: 7, error: { code: -32601 } }]);
  const newer = await rpc(url, modern("no/such"), modernHeaders("no/such"));
  expect([newer.status, await newer.json()]).toMatchObject([404, { id: 1, error: { code: -32601 } }]);
});

test("a failure of the service is answered without its details, which are logged under the request's id", async () => {
  const { url, lines } = await startDoors();
  const answer = await rpc(url, toolCall("wait_for_job", { job_id: "bug" }));
  const text = await answer.text();
  expect(text).toContain('\\"code\\":\\"internal\\"');
  expect(text).not.toContain("secret detail");
  const id = answer.headers.get("x-request-id") ?? "none";
  expect(text).toContain(id);
  expect(lines).toContainEqual(
    expect.objectContaining({ level: "error", request_id: id, err: expect.any(TypeError) }),
  );
});

test("the log line of a request names the tool and how its call ended", async () => {
  const { url, lines } = await startDoors();
  await rpc(url, toolCall("get_job", { job_id: "x" }));
  expect(lines.find(({ message }) => message === "request")).toMatchObject({
    path: "/mcp",
    tool: "get_job",
    code: "job_not_found",
  });
});

test("a batch of the older era is answered whole", async () => {
  const { url } = await startDoors();
  const answer = await rpc(url, [list, { ...toolCall("get_job", { job_id: "x" }), id: 8 }], {
    "mcp-protocol-version": "2025-03-26",
  });
  const text = await answer.text();
  expect([answer.status, answer.headers.get("x-accel-buffering")]).toEqual([200, "no"]);
  expect(text).toContain('"id":7');
  expect(text).toContain('"id":8');
});

test.each(["auto", "legacy"] as const)(
  "a caller that leaves is known to the handler, era %s",
  async (era) => {
    const { url, waiting, lines } = await startDoors();
    const client = await connected(url, { era });
    const leaving = new AbortController();
    const call = client.callTool(
      { name: "wait_for_job", arguments: { job_id: "x" } },
      { signal: leaving.signal },
    );
    call.catch(() => undefined);
    await until(() => waiting.now === 1);
    leaving.abort();
    await expect(call).rejects.toThrow("aborted");
    await client.close();
    await until(() => waiting.now === 0);
    expect(lines.filter(({ level }) => level === "error")).toEqual([]);
  },
);

test("a stream sends pings, passes proxies unbuffered, and is used for a call that reports progress", async () => {
  const { url } = await startDoors({ ...changing, pingEveryMs: 20 });
  const leaving = new AbortController();
  for (const [body, headers] of [
    [toolCall("wait_for_job", { job_id: "x" }, { _meta: { progressToken: 1 } }), {}],
    [modern("subscriptions/listen", subscription), modernHeaders("subscriptions/listen")],
  ] as const) {
    const answer = await fetch(`${url}/mcp`, {
      method: "POST",
      signal: leaving.signal,
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(headers as Record<string, string>),
      },
      body: JSON.stringify(body),
    });
    expect(answer.headers.get("content-type")).toBe("text/event-stream");
    expect(answer.headers.get("x-accel-buffering")).toBe("no");
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of answer.body ?? []) {
      text += decoder.decode(chunk);
      if (text.split("\n").filter((line) => line.startsWith(":")).length > 1) break;
    }
    expect(text).toContain("data: ");
  }
  leaving.abort();
});

test("a subscription ends at once, because the tools never change", async () => {
  const { url } = await startDoors();
  const answer = await rpc(
    url,
    modern("subscriptions/listen", subscription),
    modernHeaders("subscriptions/listen"),
  );
  expect(await answer.text()).toContain('"resultType":"complete"');
});

test("when the service shuts down subscriptions end in order, no new ones begin, and calls are still answered", async () => {
  const { url, closing } = await startDoors(changing);
  const listen = () =>
    rpc(url, modern("subscriptions/listen", subscription), modernHeaders("subscriptions/listen"));
  const reader = (await listen()).body?.pipeThrough(new TextDecoderStream()).getReader();
  expect((await reader?.read())?.value).toContain("acknowledged");
  closing.abort();
  expect((await reader?.read())?.value).toContain('"resultType":"complete"');
  expect((await reader?.read())?.done).toBe(true);
  const late = await listen();
  expect([late.status, late.headers.get("retry-after"), await late.json()]).toMatchObject([
    503,
    "10",
    { success: false, code: "draining" },
  ]);
  expect((await rpc(url, toolCall("list_jobs", {}))).status).toBe(200);
});

test("hundreds of abandoned subscriptions and calls leave nothing behind", async () => {
  const { url, waiting, closing } = await startDoors(changing);
  // The first request loads what listens as long as the service runs.
  await rpc(url, toolCall("list_jobs", {}));
  const before = getEventListeners(closing.signal, "abort").length;
  const leaving = new AbortController();
  const opened = Array.from({ length: 200 }, (_, index) =>
    fetch(`${url}/mcp`, {
      method: "POST",
      signal: leaving.signal,
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(index % 2 === 0 && modernHeaders("subscriptions/listen")),
      },
      body: JSON.stringify(
        index % 2 === 0
          ? modern("subscriptions/listen", subscription)
          : toolCall("wait_for_job", { job_id: "x" }, { _meta: { progressToken: index } }),
      ),
    }),
  );
  await Promise.all(opened);
  expect(waiting.now).toBe(100);
  leaving.abort();
  await until(() => waiting.now === 0);
  expect(getEventListeners(closing.signal, "abort").length).toBe(before);
});
