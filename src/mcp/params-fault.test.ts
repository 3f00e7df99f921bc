import { expect, test } from "vitest";
import { paramsFault } from "./params-fault.ts";
import { rpc, startDoors } from "./mcp.fixture.ts";

const clientInfo = { name: "x", version: "1" };

test.each([
  ["initialize", {}, "params.protocolVersion"],
  ["initialize", { protocolVersion: 5, capabilities: {}, clientInfo }, "params.protocolVersion"],
  ["initialize", { protocolVersion: "2025-06-18", capabilities: [], clientInfo }, "params.capabilities"],
  [
    "initialize",
    { protocolVersion: "2025-06-18", capabilities: {}, clientInfo: {} },
    "params.clientInfo.name",
  ],
  ["tools/call", {}, "params.name must be the name of a tool, and is missing"],
  ["tools/call", { name: 5 }, "params.name must be the name of a tool, and is a number"],
  ["tools/call", { name: null }, "params.name must be the name of a tool, and is missing"],
  ["tools/call", { name: "list_jobs", arguments: 5 }, "params.arguments must be an object"],
  ["tools/call", { name: "list_jobs", arguments: [] }, "and is an array"],
])("%s with %j is answered with a sentence", async (method, params, words) => {
  const { url } = await startDoors();
  const answer = await rpc(url, { jsonrpc: "2.0", id: 4, method, params });
  const { id, error } = (await answer.json()) as { id: number; error: { code: number; message: string } };
  expect([id, error.code, error.message]).toEqual([4, -32602, expect.stringContaining(words)]);
  expect(error.message).not.toMatch(/[[{\n]/);
});

test("the newer era answers the same", async () => {
  const { url } = await startDoors();
  const params = {
    name: "list_jobs",
    arguments: "x",
    _meta: {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": clientInfo,
      "io.modelcontextprotocol/clientCapabilities": {},
    },
  };
  const answer = await rpc(
    url,
    { jsonrpc: "2.0", id: 4, method: "tools/call", params },
    { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "list_jobs" },
  );
  expect(await answer.json()).toMatchObject({
    id: 4,
    error: { code: -32602, message: expect.stringContaining("params.arguments must be an object") },
  });
});

test("initialize within a batch is refused with a sentence", async () => {
  const { url } = await startDoors();
  const answer = await rpc(url, [{ jsonrpc: "2.0", id: 4, method: "initialize", params: {} }]);
  expect([answer.status, await answer.text()]).toEqual([
    400,
    expect.stringContaining(
      '"code":-32600,"message":"Invalid Request: send initialize by itself, not in a batch"',
    ),
  ]);
});

test("valid params pass, and so do those of other methods", () => {
  const rightOnes = [
    ["initialize", { protocolVersion: "2025-06-18", capabilities: { roots: {} }, clientInfo }],
    ["tools/call", { name: "list_jobs" }],
    ["tools/call", { name: "list_jobs", arguments: { limit: 1 }, _meta: { progressToken: 1 } }],
    ["tools/list", {}],
  ] as const;
  for (const [method, params] of rightOnes)
    expect(paramsFault({ jsonrpc: "2.0", id: 1, method, params })).toBe(null);
});
