import { expect, test } from "vitest";
import { longestBlock } from "../../test/longest-block.ts";
import { rpc, startDoors, toolCall } from "./mcp.fixture.ts";

const list = { jsonrpc: "2.0", id: 7, method: "tools/list" };

test("what is not JSON, or no message, is refused with an error of JSON-RPC", async () => {
  const { url } = await startDoors();
  const refused = async (body: string, headers: Record<string, string> = {}) => {
    const answer = await rpc(url, body, headers);
    const { error } = (await answer.json()) as { error: { code: number; message: string } };
    return [answer.status, error.code, error.message];
  };
  expect(await refused('{"jsonrpc":')).toEqual([
    400,
    -32700,
    expect.stringContaining("Unexpected end of JSON input"),
  ]);
  expect(await refused("")).toEqual([400, -32700, expect.stringContaining("empty")]);
  expect(await refused("{}", { "content-type": "text/plain" })).toEqual([415, -32000, expect.any(String)]);
  expect((await refused('"text"'))[0]).toBe(400);
  expect((await refused("[]"))[0]).toBe(400);
  expect((await refused('{"jsonrpc":"1.0","id":1,"method":"tools/list"}'))[0]).toBe(400);
  const [status, , words] = await refused(JSON.stringify(list), { accept: "text/html, image/*" });
  expect([status, words]).toEqual([406, expect.stringContaining("application/json or text/event-stream")]);
  expect((await refused(JSON.stringify(list), { "mcp-protocol-version": "1999-01-01" }))[0]).toBe(400);
});

test("a body over 1 MiB is refused as REST does", async () => {
  const { url } = await startDoors();
  const answer = await rpc(url, toolCall("run_task", { task: "x".repeat(1_048_576) }));
  expect([answer.status, await answer.json()]).toEqual([
    413,
    { success: false, error: expect.stringContaining("1,048,576"), code: "body_too_large" },
  ]);
});

test.each([
  ["a number", 5],
  ["an array", ["x"]],
  ["false", false],
])("arguments that are %s are refused, and the next call works", async (_, given) => {
  const { url } = await startDoors();
  const answer = await rpc(url, {
    ...toolCall("list_jobs", {}),
    params: { name: "list_jobs", arguments: given },
  });
  expect(answer.status).toBe(200);
  const message = expect.stringContaining("params.arguments must be an object");
  expect(await answer.json()).toMatchObject({ id: 1, error: { code: -32602, message } });
  expect((await rpc(url, toolCall("list_jobs", {}))).status).toBe(200);
});

test.each([
  [{ limit: "five" }, "limit: must be a whole number"],
  [{ limit: [null] }, "limit: must be a whole number"],
  [
    { status: "done" },
    "status: must be one of all, active, queued, running, succeeded, failed, cancelled, expired",
  ],
  [
    { constructor: 1 },
    "constructor: is not known, known are limit, status, outcome, session_id, repo_url, profile, since, q, cursor",
  ],
])("list_jobs with %o is refused in the words of REST", async (args, error) => {
  const { url } = await startDoors();
  const { result } = (await (await rpc(url, toolCall("list_jobs", args))).json()) as { result: object };
  expect(result).toMatchObject({
    isError: true,
    structuredContent: { success: false, error, code: "invalid_request" },
  });
});

test("parameters that are for REST only are as unknown as any other name", async () => {
  const { url } = await startDoors();
  const answer = await rpc(url, toolCall("run_task", { task: "x", wait: true }));
  expect(JSON.stringify(await answer.json())).toContain("wait: is not known");
  const other = await (await rpc(url, toolCall("run_task", { task: "x", extra: 1 }))).text();
  expect(other).toMatch(/extra: is not known, known are task, [\w, ]*worktree_id\b/);
  expect(other).not.toContain("wait");
});

test("a call that is nested deeply or has very many values is refused without delaying others", async () => {
  const { url } = await startDoors();
  const sse = await fetch(`${url}/sse`);
  const opening = await sse.body?.getReader().read();
  const endpoint = /data: (.*)/.exec(Buffer.from(opening?.value ?? []).toString())?.[1] ?? "";
  const call = (value: string) =>
    JSON.stringify(toolCall("get_job", {})).replace('"arguments":{}', `"arguments":{"job_id":${value}}`);
  const calls: [body: string, message: string][] = [
    [call(`${"[".repeat(500_000)}${"]".repeat(500_000)}`), "nested more than 100 levels deep"],
    [call(`[${Array(500_000).fill(1).join()}]`), "more than 10,000 values"],
    [call(`{${Array.from({ length: 80_000 }, (_, at) => `"${at}":1`).join()}}`), "more than 10,000 values"],
    [`[${Array(500_000).fill(1).join()}]`, "more than 10,000 values"],
  ];
  for (const path of ["/mcp", endpoint])
    for (const [body, message] of calls) {
      const ms = await longestBlock(async () => {
        const answer = await rpc(url + path, body);
        expect([answer.status, await answer.json()]).toMatchObject([
          400,
          { error: { code: -32700, message: expect.stringContaining(message) } },
        ]);
      });
      expect(ms).toBeLessThan(500);
    }
  await sse.body?.cancel().catch(() => undefined);
});

test("initialize with very many faults gets the first few of them", async () => {
  const { url } = await startDoors();
  const clientInfo = { name: "x", version: "1", icons: Array(9_900).fill(1) };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  const answer = await rpc(url, { jsonrpc: "2.0", id: 1, method: "initialize", params });
  const { error } = (await answer.json()) as { error: { message: string } };
  expect(error.message).toMatch(/icons\.0 expected object/);
  expect(error.message.length).toBeLessThan(500);
});

test("oddly named arguments do no harm", async () => {
  const { url } = await startDoors();
  const odd = await rpc(
    url,
    JSON.stringify(toolCall("get_job", {})).replace("{}", '{"__proto__":{"x":1},"job_id":"x"}'),
  );
  expect(odd.status).toBe(200);
  for (const name of ["__proto__", "constructor", "toString", ""]) {
    const answer = await rpc(url, toolCall(name, {}));
    expect(await answer.json()).toMatchObject({
      error: { code: -32602, message: expect.stringContaining("no tool") },
    });
  }
});
