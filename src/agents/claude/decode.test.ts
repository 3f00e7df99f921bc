import fc from "fast-check";
import { PassThrough } from "node:stream";
import { once } from "node:events";
import { expect, test } from "vitest";
import { AgentEvent } from "../../contract/event.ts";
import { createDecoder } from "./decode.ts";
import { createRedactor } from "../../lib/redact.ts";
import { readOutput } from "./read-output.ts";

const decodeAll = (lines: readonly (object | string)[]): AgentEvent[] => {
  const { decode } = createDecoder();
  return lines.flatMap((line) => decode(typeof line === "string" ? line : JSON.stringify(line)).events);
};

const stream = (event: object) => ({
  type: "stream_event",
  event,
  parent_tool_use_id: null,
  session_id: "s",
});
const start = (index: number, type: string) =>
  stream({ type: "content_block_start", index, content_block: { type } });
const stop = (index: number) => stream({ type: "content_block_stop", index });
const delta = (index: number, text: string) =>
  stream({ type: "content_block_delta", index, delta: { type: "text_delta", text } });
const thought = (index: number, thinking: string) =>
  stream({ type: "content_block_delta", index, delta: { type: "thinking_delta", thinking } });
const message = stream({ type: "message_start", message: { id: "msg_1" } });
const assistant = (content: object[], more: object = {}) => ({
  type: "assistant",
  message: { model: "m", content },
  parent_tool_use_id: null,
  ...more,
});
const user = (content: unknown, more: object = {}) => ({
  type: "user",
  message: { role: "user", content },
  ...more,
});
const init = { type: "system", subtype: "init", session_id: "s", model: "m", claude_code_version: "2.1.197" };
const success = {
  type: "result",
  subtype: "success",
  is_error: false,
  result: "Done.",
  num_turns: 3,
  session_id: "s",
};

/** A run with thinking, text, a tool turn and a subagent, as the CLI writes it. */
const recorded = [
  init,
  { type: "system", subtype: "status", status: "requesting" },
  message,
  start(0, "thinking"),
  thought(0, "Let me "),
  { type: "system", subtype: "thinking_tokens", estimated_tokens: 3 },
  thought(0, "see …"),
  stream({ type: "content_block_delta", index: 0, delta: { type: "signature_delta", signature: "abc" } }),
  assistant([{ type: "thinking", thinking: "Let me see …", signature: "abc" }]),
  stop(0),
  start(1, "text"),
  delta(1, "I'll write "),
  delta(1, "ä 🚀."),
  assistant([{ type: "text", text: "I'll write ä 🚀." }]),
  stop(1),
  start(2, "tool_use"),
  stream({
    type: "content_block_delta",
    index: 2,
    delta: { type: "input_json_delta", partial_json: '{"a"' },
  }),
  assistant([{ type: "tool_use", id: "t1", name: "Write", input: { file_path: "/x", content: "ü" } }]),
  stop(2),
  stream({ type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 9 } }),
  user([{ type: "tool_result", tool_use_id: "t1", content: "ok" }]),
  stream({ type: "message_stop" }),
  message,
  start(0, "text"),
  delta(0, "Done."),
  assistant([{ type: "text", text: "Done." }]),
  stop(0),
  success,
];

const expected = [
  { type: "started", session_id: "s", model: "m", agent_version: "2.1.197" },
  { type: "thinking", block: 1, text: "Let me " },
  { type: "thinking", block: 1, text: "see …" },
  { type: "block_end", block: 1 },
  { type: "text", block: 2, text: "I'll write " },
  { type: "text", block: 2, text: "ä 🚀." },
  { type: "block_end", block: 2 },
  { type: "tool_use", id: "t1", name: "Write", input: { file_path: "/x", content: "ü" }, parent: null },
  { type: "tool_result", tool_use_id: "t1", content: "ok", is_error: false, parent: null },
  expect.objectContaining({ type: "usage", usage: expect.objectContaining({ output_tokens: 9 }) }),
  { type: "text", block: 3, text: "Done." },
  { type: "block_end", block: 3 },
  expect.objectContaining({ type: "result", ok: true, text: "Done.", num_turns: 3 }),
];

test("a run is emitted once, in order, although the CLI sends each block twice", () => {
  const events = decodeAll(recorded);
  expect(events).toEqual(expected);
  for (const event of events) expect(AgentEvent.parse(event)).toEqual(event);
});

test("the events are the same wherever the bytes are split", async () => {
  const bytes = Buffer.from(recorded.map((line) => `${JSON.stringify(line)}\n`).join(""));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 60 }), async (points) => {
      const stdout = new PassThrough();
      const stderr = new PassThrough();
      const events: AgentEvent[] = [];
      const nothing = (): void => {};
      const reader = readOutput({
        stdout,
        stderr,
        redact: createRedactor([]),
        emit: (event) => events.push(event),
        onRequest: nothing,
        onLine: nothing,
        onChunk: nothing,
      });
      const cuts = [0, ...points.toSorted((a, b) => a - b), bytes.length];
      for (const [at, end] of cuts.slice(1).entries()) stdout.write(bytes.subarray(cuts[at], end));
      stdout.end();
      await once(stdout, "close");
      expect(events).toEqual(expected);
      expect(reader.observed()).toMatchObject({
        stdoutBytes: bytes.length,
        isLineCut: false,
        sessionId: "s",
        model: "m",
      });
    }),
    { numRuns: 60 },
  );
});

test("the CLI's own error messages and a subagent's words are not the model's text; a subagent's calls are reported", () => {
  const parent_tool_use_id = "t1";
  const events = decodeAll([
    {
      ...assistant([{ type: "text", text: "API Error: 500" }]),
      message: { model: "<synthetic>", content: [] },
    },
    assistant([{ type: "text", text: "API Error: 500" }], { error: "server_error" }),
    assistant(
      [
        { type: "text", text: "sub" },
        { type: "tool_use", id: "t2", name: "Grep", input: {} },
      ],
      { parent_tool_use_id },
    ),
    { ...delta(0, "sub"), parent_tool_use_id },
    user([{ type: "tool_result", tool_use_id: "t2", content: "x", is_error: true }], { parent_tool_use_id }),
  ]);
  expect(events).toEqual([
    { type: "tool_use", id: "t2", name: "Grep", input: {}, parent: "t1" },
    { type: "tool_result", tool_use_id: "t2", content: "x", is_error: true, parent: "t1" },
  ]);
});

test("a tool's result is text, whether it comes as a string, as blocks or not at all", () => {
  const content = (value: unknown) =>
    decodeAll([user([{ type: "tool_result", tool_use_id: "t", content: value }])])[0];
  expect(content("plain")).toMatchObject({ content: "plain", is_error: false });
  expect(
    content([
      { type: "text", text: "a" },
      { type: "image", source: {} },
      { type: "text", text: "b" },
    ]),
  ).toMatchObject({
    content: "a\n[image]\nb",
  });
  expect(content(undefined)).toMatchObject({ content: "" });
  expect(content(42)).toMatchObject({ content: "" });
});

test("retries and limits are reported; an unreadable time is none", () => {
  const limit = (resetsAt: unknown) => ({
    type: "rate_limit_event",
    rate_limit_info: { status: "rejected", resetsAt },
  });
  expect(
    decodeAll([
      {
        type: "system",
        subtype: "api_retry",
        attempt: 1,
        max_retries: 3,
        retry_delay_ms: 513.2,
        error_status: 529,
        error: "server_error",
      },
      limit(1_795_234_654),
      limit("soon"),
      limit(1e300),
    ]),
  ).toEqual([
    { type: "retry", retry: 1, max_retries: 3, delay_ms: 513.2, status: 529, error: "server_error" },
    { type: "rate_limit", status: "rejected", resets_at: "2026-11-21T04:17:34.000Z" },
    { type: "rate_limit", status: "rejected", resets_at: null },
    { type: "rate_limit", status: "rejected", resets_at: null },
  ]);
});

test.for<[object, object]>([
  [
    { subtype: "success", is_error: true, api_error_status: 500, result: "API Error" },
    { ok: false, api_status: 500, text: "API Error" },
  ],
  [
    { subtype: "error_max_turns", is_error: true, errors: ["a", "b"] },
    { ok: false, text: "a\nb" },
  ],
  [
    { subtype: "error_max_turns", is_error: false },
    { ok: false, text: "" },
  ],
  [{ subtype: "success" }, { ok: true }],
  [{}, { ok: false, subtype: "unknown" }],
  [
    {
      subtype: "success",
      is_error: false,
      usage: { input_tokens: 5 },
      total_cost_usd: "much",
      num_turns: 1.5,
    },
    { ok: true, cost_usd: null, num_turns: null, usage: { input_tokens: 5, output_tokens: 0 } },
  ],
])("the result %o reads as %o", ([line, event]) => {
  const [decoded] = decodeAll([{ type: "result", ...line }]);
  expect(AgentEvent.parse(decoded)).toMatchObject(event);
});

test("any object, known or not, whole or mangled, is read without an exception and gives only valid events", () => {
  const kinds = ["system", "stream_event", "assistant", "user", "result", "rate_limit_event", "novelty"];
  const line = fc.oneof(
    fc.json(),
    fc.string(),
    fc.record({
      type: fc.constantFrom(...kinds),
      subtype: fc.string(),
      event: fc.object(),
      message: fc.object(),
    }),
    fc.constantFrom(...recorded).chain((one) => fc.nat(200).map((at) => JSON.stringify(one).slice(0, at))),
  );
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      for (const event of decodeAll(lines)) AgentEvent.parse(event);
    }),
  );
});

test("lines that are no objects are garbage, kept for the output; empty ones and unknown kinds are passed over", () => {
  const { decode } = createDecoder();
  expect(decode("Warning: deprecated")).toEqual({ events: [], garbage: true });
  expect(decode('{"type":"assistant","mess')).toEqual({ events: [], garbage: true });
  expect(decode("  ")).toEqual({ events: [], garbage: false });
  expect(decode('{"type":"toString"}')).toEqual({ events: [], garbage: false });
});
