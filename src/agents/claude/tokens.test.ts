import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { PassThrough } from "node:stream";
import { expect, test } from "vitest";
import type { AgentEvent } from "../../contract/event.ts";
import { addUsage, type Usage } from "../../contract/job.ts";
import { createRedactor } from "../../lib/redact.ts";
import { createDecoder } from "./decode.ts";
import { readOutput } from "./read-output.ts";

const decodeAll = (lines: readonly string[]): AgentEvent[] => {
  const { decode } = createDecoder();
  return lines.flatMap((line) => decode(line).events);
};

const stream = (event: object) => ({ type: "stream_event", event, parent_tool_use_id: null });
const tokens = (input_tokens: number, output_tokens: number) => ({
  input_tokens,
  output_tokens,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
});

test.each(["text", "thinking", "tools", "tool-error", "ends-in-silence"])(
  "the tokens of the messages of %s, one event each, are those of its result",
  async (name) => {
    const recording = join(import.meta.dirname, "../../chat/recordings", `${name}.ndjson`);
    const events = decodeAll((await readFile(recording, "utf8")).split("\n"));
    const usages = events.flatMap((event) => (event.type === "usage" ? [event.usage] : []));
    const results = events.flatMap((event) => (event.type === "result" ? [event.usage] : []));
    expect(results).toEqual([usages.reduce<Usage | null>(addUsage, null)]);
    expect(results[0]?.output_tokens).toBeGreaterThan(0);
  },
);

test("a message's tokens are those told last, whatever is told of them; a subagent's are not", () => {
  const told = (usage: unknown) => stream({ type: "message_delta", delta: {}, usage });
  const end = stream({ type: "message_stop" });
  const begin = stream({ type: "message_start", message: { usage: { ...tokens(70, 1), novelty: 5 } } });
  const lines = [
    begin,
    told({ output_tokens: 5 }),
    told({ output_tokens: 12, input_tokens: null, cache_read_input_tokens: -1 }),
    told("much"),
    end,
    end,
    { ...begin, parent_tool_use_id: "t1" },
    { ...end, parent_tool_use_id: "t1" },
  ];
  const events = decodeAll(lines.map((line) => JSON.stringify(line)));
  expect(events).toEqual([tokens(70, 12), tokens(0, 0)].map((usage) => ({ type: "usage", usage })));
});

test("the tokens of several results are added up", async () => {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const nothing = (): void => {};
  const reader = readOutput({
    stdout,
    stderr,
    redact: createRedactor([]),
    emit: nothing,
    onRequest: nothing,
    onLine: nothing,
    onChunk: nothing,
  });
  for (const usage of [tokens(3, 4), tokens(30, 40), null])
    stdout.write(`${JSON.stringify({ type: "result", usage })}\n`);
  stdout.end();
  await once(stdout, "close");
  expect(reader.observed().usage).toEqual(tokens(33, 44));
});

test("a message under way has the tokens that were told when it began", () => {
  const { decode, facts, nextTurn } = createDecoder();
  const begin = stream({ type: "message_start", message: { usage: tokens(70, 1) } });
  decode(JSON.stringify(begin));
  expect(facts.tokens).toEqual(tokens(70, 1));
  decode(JSON.stringify(stream({ type: "message_stop" })));
  expect(facts.tokens).toEqual(tokens(0, 0));
  decode(JSON.stringify(begin));
  nextTurn();
  expect(facts.tokens).toEqual(tokens(0, 0));
});
