import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, test } from "vitest";
import { bridgeEnvironment, bridgeProgram, recordedHome } from "./run-bridge.ts";

test("on stdio the first answer has what is in the files, though nothing was read before", async () => {
  const client = new Client({ name: "test", version: "1" });
  const env = bridgeEnvironment(await recordedHome());
  const args = [bridgeProgram, "serve"];
  await client.connect(new StdioClientTransport({ command: process.execPath, args, env, stderr: "ignore" }));
  const { structuredContent } = await client.callTool({ name: "list_sessions", arguments: {} });
  expect(structuredContent).toMatchObject({ total: 11 });
  expect(structuredContent).not.toHaveProperty("collecting");
  await client.close();
});
