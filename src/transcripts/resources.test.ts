import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import { transcriptOperations } from "../contract/transcript.ts";
import { answerBy } from "../mcp/answer.ts";
import { createServerFactory } from "../mcp/server.ts";
import { startTools, talk, token } from "./handlers.fixture.ts";
import { transcriptResources } from "./resources.ts";
import { append, newSource, quiet, userLine } from "./transcript-index.fixture.ts";

const start = async ({ scopes = null as string[] | null, withResources = true } = {}) => {
  const tools = await startTools();
  const log = { ...quiet, info: (line: object) => void tools.read.push(line) };
  const resources = transcriptResources({ library: tools.index, redact: true, log });
  const newServer = createServerFactory({
    answer: answerBy(transcriptOperations, tools.handlers, quiet),
    program: {
      service: { name: "bridge", title: "test", version: "1" },
      instructions: "",
      operations: transcriptOperations,
      parts: { agent: false },
      ...(withResources && { resources }),
    },
  });
  const [near, far] = InMemoryTransport.createLinkedPair();
  await newServer({ principal: "ana", scopes, requestId: "1", note: () => undefined }).connect(far);
  const client = new Client({ name: "test", version: "1" });
  await client.connect(near);
  return { ...tools, client };
};

test("sessions, plans and memory files are listed in pages and read, masked and bounded", async () => {
  const { client, session, index, read } = await start();
  for (let number = 0; number < 101; number += 1) await session(`n${number}`, userLine("hello"));
  await session("long", userLine(`the key is ${token}`), ...talk(200, "w".repeat(900)));
  await append(index, newSource("plan", "/h/plans/calm otter.md"), `# Plan ${token}`);
  await append(index, newSource("memory", "/h/projects/-home-ana-app/memory/MEMORY.md"), "# Remember");
  const uris: string[] = [];
  for (let cursor: string | undefined; ;) {
    const page = await client.request({ method: "resources/list", params: { ...(cursor && { cursor }) } });
    expect(page.resources.length).toBeLessThanOrEqual(100);
    uris.push(...page.resources.map(({ uri }) => uri));
    cursor = page.nextCursor;
    if (cursor === undefined) break;
  }
  expect(uris).toHaveLength(104);
  expect(uris.slice(-2)).toEqual(["plan://calm%20otter", "memory://-home-ana-app/MEMORY.md"]);
  const text = async (uri: string) => {
    const [content] = (await client.readResource({ uri })).contents;
    return content !== undefined && "text" in content ? content.text : "";
  };
  expect(await text("plan://calm%20otter")).toBe("# Plan ***");
  expect(await text("memory://-home-ana-app/MEMORY.md")).toBe("# Remember");
  const long = await text("session://long");
  expect(long).toContain("## assistant");
  expect(long).toContain("earlier entries are left out");
  expect(Buffer.byteLength(long)).toBeLessThan(75_000);
  expect(read).toContainEqual({ principal: "ana", tool: "resources/read", uri: "session://long", count: 1 });
  expect((await client.listResourceTemplates()).resourceTemplates).toHaveLength(3);
});

test.each([
  "session://../../etc/passwd",
  "session://nobody",
  "file:///etc/passwd",
  "memory://x",
  "plan://%00",
  "plan://%",
])("%s is not found", async (uri) => {
  const { client } = await start();
  await expect(client.readResource({ uri })).rejects.toThrow(/not found/i);
});

test("a cursor that is none of the list is refused", async () => {
  const { client } = await start();
  await expect(client.listResources({ cursor: "sessions:-1" })).rejects.toThrow(
    "The cursor is none of this list",
  );
});

test("resources need the scope read", async () => {
  const { client } = await start({ scopes: ["dispatch"] });
  await expect(client.readResource({ uri: "session://x" })).rejects.toThrow("need the scope read");
  await expect(client.listResources({ cursor: "" })).rejects.toThrow("need the scope read");
});

test("a program without resources does not offer the capability", async () => {
  const { client } = await start({ withResources: false });
  expect(client.getServerCapabilities()).toEqual({ tools: { listChanged: false } });
});
