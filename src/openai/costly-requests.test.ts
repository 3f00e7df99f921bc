import { expect, test } from "vitest";
import { longestBlock } from "../../test/longest-block.ts";
import { startDoor } from "./openai.fixture.ts";

/* What one request near the limit of 20 MiB costs everybody else. */

const door = await startDoor();

const asked = (body: string) => {
  const init = { body: Buffer.from(body) };
  const answered = { status: 0, text: "" };
  const ms = longestBlock(async () => {
    const answer = await door.post("", {}, init);
    answered.status = answer.status;
    answered.text = await answer.text();
  });
  return ms.then((longest) => ({ ...answered, longest }));
};

const chat = (more: string, content = '"hi"'): string =>
  `{"model":"helper","messages":[{"role":"user","content":${content}}]${more}}`;
const list = (items: number, item: string): string => `[${Array(items).fill(item).join()}]`;
const object = (keys: number): string => `{${Array.from({ length: keys }, (_, at) => `"k${at}":1`).join()}}`;

test.each([
  ["10 M names of servers that are none", () => chat(`,"disable_mcp_servers":${list(9_500_000, "1")}`)],
  ["1.5 M unknown fields", () => chat(`,${object(1_500_000).slice(1, -1)}`)],
  ["10 M levels", () => chat(`,"x":${"[".repeat(9_500_000)}${"]".repeat(9_500_000)}`)],
  ["7 M empty parts", () => chat("", list(6_500_000, "{}"))],
])("%s: refused, and nobody is held up", async (_, body) => {
  const { status, text, longest } = await asked(body());
  expect([status, text]).toEqual([400, expect.stringMatching(/"The JSON (has more|is nested)/)]);
  expect(longest).toBeLessThan(1000);
});

test.each([
  ["49,000 unknown fields", () => chat(`,${object(49_000).slice(1, -1)}`)],
  ["99,000 messages", () => `{"model":"helper","messages":${list(99_000, "{}")}}`],
  ["90,000 empty parts", () => chat("", list(90_000, "{}"))],
])("%s: as many as may be hold nobody up", async (_, body) => {
  const { longest } = await asked(body());
  expect(longest).toBeLessThan(1000);
});

test("as many faults as fit cost no more than one", async () => {
  const many = list(33_000, "1");
  const { status, text, longest } = await asked(
    chat(`,"stop":${many},"modalities":${many},"disable_mcp_servers":${many}`),
  );
  expect([status, text]).toEqual([400, expect.stringContaining("must have at most 100 items")]);
  expect(longest).toBeLessThan(100);
});

test("a text that looks like a chat UI's question for a title is not searched for long", async () => {
  const { status, longest } = await asked(
    chat("", `"### Task:${" ".repeat(15_000_000)}<chat_history></chat_history>"`),
  );
  expect(status).toBe(200);
  expect(longest).toBeLessThan(1000);
});

test("a long history with large images is taken, and nobody is held up", async () => {
  const image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo${"A".repeat(2_000_001)}"}}`;
  const said = `{"role":"user","content":[{"type":"text","text":"Look"},${image}]},{"role":"assistant","content":"I see"}`;
  const tool = `{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"1","content":"done"}`;
  const history = [...Array(9).fill(said), ...Array(2000).fill(tool)].join();
  const { status, longest } = await asked(
    `{"model":"helper","messages":[${history},{"role":"user","content":"hi"}]}`,
  );
  expect(status).toBe(200);
  expect(longest).toBeLessThan(1000);
});
