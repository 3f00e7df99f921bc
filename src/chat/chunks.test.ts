import fc from "fast-check";
import { expect, test } from "vitest";
import { checkChunk, checkCompletion, checkError } from "../../test/openai-schemas.ts";
import { redactDeep } from "../lib/redact.ts";
import { wellFormed } from "../lib/well-formed.ts";
import { createChunks, doneEvent, errorEvent } from "./chunks.ts";
import { createCompletionObject } from "./turn.ts";
import { type Delta, contentOf } from "./delta.ts";

const head = { id: "chatcmpl-1", created: 1_795_266_000, model: "agent" };
const chunks = createChunks(head);
const usage = {
  input_tokens: 5,
  output_tokens: 7,
  cache_creation_input_tokens: 10,
  cache_read_input_tokens: 100,
};
const publicUsage = {
  prompt_tokens: 115,
  completion_tokens: 7,
  total_tokens: 122,
  prompt_tokens_details: { cached_tokens: 100 },
};

/** Data of each event; fails on anything that is not `data: …` and an empty line. */
const dataOf = (events: string): unknown[] =>
  events
    .slice(0, -2)
    .split("\n\n")
    .map((event) => JSON.parse(/^data: (\{.*\})$/.exec(event)?.[1] ?? "not an event"));

const chunk = (delta: object, more: object = {}) => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 1_795_266_000,
  model: "agent",
  choices: [{ index: 0, delta, finish_reason: null, ...more }],
});

test("the stop chunk has the usage, and with include_usage a chunk of its own follows", () => {
  const stop = { ...chunk({}, { finish_reason: "stop" }), usage: publicUsage };
  const extra = { ...chunk({}), choices: [], usage: publicUsage };
  expect(dataOf(chunks.stop(usage, false))).toEqual([stop]);
  expect(dataOf(chunks.stop(usage, true))).toEqual([stop, extra]);
  expect([stop, extra].flatMap(checkChunk)).toEqual([]);
  expect(dataOf(chunks.stop(null, false))[0]).toMatchObject({
    usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 },
  });
});

test("an error has all four fields, and the end is the public one", () => {
  const error = { message: "No.", type: "server_error", param: null, code: "capacity_full" };
  expect(dataOf(errorEvent(error))).toEqual([{ error }]);
  expect(dataOf(errorEvent(error)).flatMap(checkError)).toEqual([]);
  expect(doneEvent).toBe("data: [DONE]\n\n");
});

const long = 200_000;

test.each([
  ["an answer", { kind: "final", text: "word ".repeat(long / 5) }],
  ["text of the smallest characters", { kind: "text", text: "\u0001".repeat(long) }],
  ["characters that readers of lines break at", { kind: "narration", text: "\u2028".repeat(long) }],
  ["characters of two units", { kind: "thinking", text: `x${"\u{1f600}".repeat(long / 2)}` }],
  [
    "a tool's input",
    { kind: "tool_use", id: "t-1", name: "Write", input: { content: "\u00e9".repeat(long) } },
  ],
  ["a tool's result", { kind: "tool_result", id: "t-1", content: `${'"'.repeat(long)}\n`, isError: true }],
  ["a tool's name", { kind: "tool_use", id: "i".repeat(long), name: "\u0001".repeat(long), input: {} }],
] satisfies [string, Delta][])(
  "%s that is long comes in lines of at most 32 KiB with the same tags",
  (_, delta) => {
    const events = createChunks({ ...head, model: "\u0001".repeat(256) }).delta(delta);
    const lines = events.split("\n\n").slice(0, -1);
    expect(Math.max(...lines.map((line) => Buffer.byteLength(line)))).toBeLessThanOrEqual(32_768);
    const pieces = dataOf(events) as { choices: [{ delta: Record<string, string> }] }[];
    const name = delta.kind === "thinking" ? "reasoning_content" : "content";
    const joined = pieces.map(({ choices: [{ delta }] }) => delta[name] ?? "").join("");
    expect(joined === (delta.kind === "thinking" ? delta.text : contentOf(delta))).toBe(true);
    expect(joined.isWellFormed() && pieces.every((piece) => JSON.stringify(piece).isWellFormed())).toBe(true);
    // Tags, tool and the rest are those of the first piece.
    const others = pieces.map((piece) => JSON.stringify({ ...piece, choices: [] }));
    expect([new Set(others).size, pieces.length > 1]).toEqual([1, true]);
  },
);

test("an error that is long is cut", () => {
  const event = errorEvent({
    message: "\0".repeat(long),
    type: "server_error",
    param: null,
    code: "internal",
  });
  expect(event.length).toBeLessThan(32_768);
});

const anyText = fc.oneof(
  fc.string({ unit: fc.nat(0xffff).map((code) => String.fromCharCode(code)) }),
  fc.string({
    unit: fc.constantFrom(
      "\u2028",
      "\u2029",
      "\u0085",
      "\ud83d",
      "\n",
      "\r",
      '"',
      "\\",
      "\0",
      "data: [DONE]",
    ),
  }),
);
const anyDelta = fc.oneof(
  fc.record({ kind: fc.constantFrom("thinking", "text", "narration", "final"), text: anyText }),
  fc.record({ kind: fc.constant("tool_use"), id: anyText, name: anyText, input: fc.jsonValue() }),
  fc.record({ kind: fc.constant("tool_result"), id: anyText, content: anyText, isError: fc.boolean() }),
) as fc.Arbitrary<Delta>;

/** All at which some language's way to read lines breaks; a newline first. */
const lineBreaks = "\n \r \v \f \u001c \u001d \u001e \u0085 \u2028 \u2029".split(" ");
const twoNewlines = [2, 0, 0, 0, 0, 0, 0, 0, 0, 0];

test("any text is one line to every reader of lines, survives the bytes, and is valid for the public format", () => {
  fc.assert(
    fc.property(anyDelta, anyText, (delta, model) => {
      const event = createChunks({ ...head, model }).delta(delta);
      expect(lineBreaks.map((lineBreak) => event.split(lineBreak).length - 1)).toEqual(twoNewlines);
      expect(Buffer.from(event).toString()).toBe(event);
      const [data] = dataOf(event) as [ReturnType<typeof chunk>];
      expect(checkChunk(data)).toEqual([]);
      expect(data.model).toBe(wellFormed(model));
      const words =
        delta.kind === "thinking" ? { reasoning_content: delta.text } : { content: contentOf(delta) };
      expect(data.choices[0]?.delta).toEqual(redactDeep(words, wellFormed));
    }),
  );
});

/** As the agent's decoder makes them: no text has half a character. */
const decodedDelta = anyDelta.map((delta) => redactDeep(delta, wellFormed) as Delta);

test("the whole answer is what the stream would have said, joined, and valid for the public format", () => {
  fc.assert(
    fc.property(fc.array(decodedDelta), (deltas) => {
      const whole = createCompletionObject(head);
      for (const delta of deltas) whole.take(delta);
      const object: unknown = JSON.parse(whole.finish(usage));
      const told = deltas.flatMap((delta) => dataOf(chunks.delta(delta)) as ReturnType<typeof chunk>[]);
      const joined = (field: string): string =>
        told
          .map(
            ({ choices: [choice] }) =>
              Object.entries(choice?.delta ?? {}).find(([name]) => name === field)?.[1] ?? "",
          )
          .join("");
      const thought = deltas.some(({ kind }) => kind === "thinking");
      expect(object).toEqual({
        ...head,
        object: "chat.completion",
        choices: [
          {
            index: 0,
            message: {
              role: "assistant",
              content: joined("content"),
              refusal: null,
              ...(thought && { reasoning_content: joined("reasoning_content") }),
            },
            logprobs: null,
            finish_reason: "stop",
          },
        ],
        usage: publicUsage,
      });
      expect(checkCompletion(object)).toEqual([]);
    }),
  );
});
