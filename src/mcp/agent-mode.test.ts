import { expect, test } from "vitest";
import { rpc, startDoors, toolCall } from "./mcp.fixture.ts";

type Body = { result?: { isError?: boolean; structuredContent: object }; error?: { message: string } };
const bodyOf = async (answer: Promise<Response>): Promise<Body> => (await (await answer).json()) as Body;

test("a completion that failed is an error to the client, with the body that REST gives it", async () => {
  const { url, lines } = await startDoors();
  const ask = (message: string) => bodyOf(rpc(url, toolCall("agent_completions", { message, uuid: "u-1" })));
  const done = await ask("do it");
  expect(done.result).toMatchObject({ structuredContent: { success: true, uuid: "u-1" } });
  expect(done.result?.isError).toBe(undefined);
  expect((await ask("fail")).result).toMatchObject({
    isError: true,
    structuredContent: { success: false, uuid: "u-1", error: "It failed", code: "agent_failed" },
  });
  const codes = lines.filter(({ tool }) => tool === "agent_completions").map(({ code }) => code);
  expect(codes).toEqual(["ok", "agent_failed"]);
});

test("without agent mode its tools are not listed, and a call answers that it is off", async () => {
  const { url } = await startDoors({ agentMode: false });
  const listed = await (await rpc(url, { jsonrpc: "2.0", id: 1, method: "tools/list" })).text();
  expect(listed).toContain('"run_task"');
  expect(listed).not.toContain("completion");
  expect((await bodyOf(rpc(url, toolCall("agent_completions", {})))).error?.message).toContain(
    "The tool agent_completions is part of agent mode, which is off; start the service with AGENT_MODE=true",
  );
  expect((await bodyOf(rpc(url, toolCall("get_completio", {})))).error?.message).not.toContain(
    "get_completion?",
  );
});
