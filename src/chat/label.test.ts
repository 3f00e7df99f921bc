import { expect, test } from "vitest";
import type { AgentEvent } from "../contract/event.ts";
import { everythingVisible } from "../contract/visibility.ts";
import { isLive, type Delta } from "./delta.ts";
import { createLabeller } from "./label.ts";

const text = (block: number, piece: string): AgentEvent => ({ type: "text", block, text: piece });
const end = (block: number): AgentEvent => ({ type: "block_end", block });
const thinking = (piece: string): AgentEvent => ({ type: "thinking", block: 9, text: piece });
const call = (parent: string | null = null): AgentEvent => ({
  type: "tool_use",
  id: "t1",
  name: "Bash",
  input: { command: "ls" },
  parent,
});
const result = (parent: string | null = null): AgentEvent => ({
  type: "tool_result",
  tool_use_id: "t1",
  content: "a",
  is_error: false,
  parent,
});
const warning = (more: object = {}): AgentEvent => ({ type: "warning", message: "Something.", ...more });

const told = (
  events: AgentEvent[],
  { ok = true, resultText = "", live = false }: { ok?: boolean; resultText?: string; live?: boolean } = {},
): Delta[] => {
  const labeller = createLabeller({ live });
  return [...events.flatMap(labeller.take), ...labeller.finish({ ok, resultText })];
};

const use: Delta = { kind: "tool_use", id: "t1", name: "Bash", input: { command: "ls" } };
const answer: Delta = { kind: "tool_result", id: "t1", content: "a", isError: false };
const narration = (words: string): Delta => ({ kind: "narration", text: words });
const final = (words: string): Delta => ({ kind: "final", text: words });

test.for<[string, AgentEvent, Delta]>([
  ["thinking", thinking("Hm"), { kind: "thinking", text: "Hm" }],
  ["a tool call", call(), use],
  ["a tool result", result(), answer],
])("a block is held until %s follows", ([, event, delta]) => {
  const { take } = createLabeller({ live: false });
  expect([text(1, "So."), end(1), warning(), warning({ dropped_block: 7 })].flatMap(take)).toEqual([]);
  expect(take(event)).toEqual([narration("So."), delta]);
});

test("a block that another one follows is narration as soon as that one begins", () => {
  const { take } = createLabeller({ live: false });
  take(text(1, "One."));
  take(end(1));
  expect(take(text(2, "Two"))).toEqual([narration("One.")]);
});

test("a block that was not closed counts as closed at the end", () => {
  expect(told([text(1, "All"), text(1, " of it")])).toEqual([final("All of it")]);
});

test("a dropped first try is not reported, neither open nor closed, and only that one", () => {
  const dropped = [text(1, "First"), end(1), warning({ dropped_block: 1 }), text(2, "Second"), end(2)];
  expect(told(dropped)).toEqual([final("Second")]);
  expect(told([text(1, "First"), warning({ dropped_block: 1 })], { resultText: "Whole" })).toEqual([
    final("Whole"),
  ]);
  expect(told([text(1, "First"), end(1), warning({ dropped_block: 2 })])).toEqual([final("First")]);
});

test("a turn in which nothing was said has its result as final", () => {
  expect(told([thinking("Hm")], { resultText: "The answer." })).toEqual([
    { kind: "thinking", text: "Hm" },
    final("The answer."),
  ]);
  expect(told([], { resultText: "" })).toEqual([]);
  expect(told([text(1, "Said."), end(1)], { resultText: "Other." })).toEqual([final("Said.")]);
});

test("what subagents do is not reported and gives no block its role", () => {
  expect(told([text(1, "So."), end(1), call("t0"), result("t0")])).toEqual([final("So.")]);
});

test("live text is sent as it comes, and neither narration nor final is", () => {
  const events = [text(1, "I "), text(1, "look."), end(1), call(), result(), text(2, "Done."), end(2)];
  expect(told(events, { live: true, resultText: "Done." })).toEqual([
    { kind: "text", text: "I " },
    { kind: "text", text: "look." },
    use,
    answer,
    { kind: "text", text: "Done." },
  ]);
  expect(told([], { live: true, resultText: "Whole." })).toEqual([{ kind: "text", text: "Whole." }]);
});

test("what the model said before a tool is sent when it begins to write the call, not when it is through", () => {
  const labeller = createLabeller({ live: false });
  expect(labeller.take({ type: "text", block: 1, text: "I write it." })).toEqual([]);
  expect(labeller.take({ type: "block_end", block: 1 })).toEqual([]);
  expect(labeller.take({ type: "tool_start", id: "t", name: "Write" })).toEqual([
    { kind: "narration", text: "I write it." },
  ]);
});

test("blocks of thinking are kept apart by a blank line, pieces of one are not", () => {
  const labeller = createLabeller({ live: false });
  const told = [
    { block: 1, text: "I look" },
    { block: 1, text: " there." },
    { block: 2, text: "Now I know." },
  ].flatMap((piece) => labeller.take({ type: "thinking", ...piece }));
  expect(told.map((delta) => ("text" in delta ? delta.text : "")).join("")).toBe(
    "I look there.\n\nNow I know.",
  );
});

test("a block without end is refused before it takes all memory", () => {
  const labeller = createLabeller({ live: false });
  const text = "x".repeat(16 * 1024 * 1024);
  const say = () => labeller.take({ type: "text", block: 1, text });
  for (const _ of [1, 2, 3, 4]) say();
  expect(say).toThrow(/more than 67108864 characters/);
});

test("text is live only when it is wanted and nothing of it is hidden", () => {
  expect(isLive(everythingVisible, true)).toBe(true);
  expect(isLive(everythingVisible, false)).toBe(false);
  expect(isLive({ ...everythingVisible, show_narration: false }, true)).toBe(false);
  expect(isLive({ ...everythingVisible, show_final: false }, true)).toBe(false);
  expect(isLive({ ...everythingVisible, show_text: false }, true)).toBe(false);
});
