import { describe, expect, test } from "vitest";
import type { AgentEvent } from "../../contract/event.ts";
import { createBlocks, type Blocks } from "./blocks.ts";

const run = (...steps: ((blocks: Blocks) => AgentEvent[])[]): AgentEvent[] => {
  const blocks = createBlocks();
  return steps.flatMap((step) => step(blocks));
};
const begin = (blocks: Blocks) => blocks.begin();
const end = (blocks: Blocks) => blocks.end();
const start = (blocks: Blocks) => blocks.start(0, "text");
const delta = (text: string) => (blocks: Blocks) => blocks.delta(0, "text", text);
const whole = (text: string) => (blocks: Blocks) => blocks.whole("text", text);
const stop = (blocks: Blocks) => blocks.stop(0);

describe("a stream that breaks", () => {
  const begun = [begin, start, delta("The answer "), delta("to every")];

  test("and is given again whole sends only what is new", () => {
    expect(run(...begun, whole("The answer to everything."), begin)).toEqual([
      { type: "text", block: 1, text: "The answer " },
      { type: "text", block: 1, text: "to every" },
      { type: "text", block: 1, text: "thing." },
      { type: "block_end", block: 1 },
    ]);
  });

  test("and is answered otherwise ends the block, says so and sends the other answer as a block of its own", () => {
    expect(run(...begun, whole("Something else."), begin).slice(2)).toEqual([
      { type: "block_end", block: 1 },
      { type: "warning", message: expect.stringContaining("broke off"), dropped_block: 1 },
      { type: "text", block: 2, text: "Something else." },
      { type: "block_end", block: 2 },
    ]);
  });

  test("and is streamed again, or never ends, leaves no block open", () => {
    expect(run(...begun, begin, start, delta("New"), end).slice(2)).toEqual([
      { type: "block_end", block: 1 },
      { type: "warning", message: expect.stringContaining("broke off"), dropped_block: 1 },
      { type: "text", block: 2, text: "New" },
      { type: "block_end", block: 2 },
    ]);
  });
});

test("text comes once, without deltas, with the end before the whole, and after it", () => {
  const once = [
    { type: "text", block: 1, text: "All." },
    { type: "block_end", block: 1 },
  ];
  expect(run(whole("All."))).toEqual(once);
  expect(run(begin, start, delta("All."), whole("All."), stop)).toEqual(once);
  expect(run(begin, start, delta("All."), stop, whole("All."))).toEqual(once);
  expect(run(begin, start, whole("All."), stop)).toEqual(once);
});

test("a whole that is longer than its closed block is not lost", () => {
  const events = run(begin, start, delta("Al"), stop, whole("All."));
  expect(events.slice(2)).toEqual([
    { type: "warning", message: expect.any(String), dropped_block: 1 },
    { type: "text", block: 2, text: "All." },
    { type: "block_end", block: 2 },
  ]);
});

test("a block ends once; it is dropped when the next message begins and its whole never came", () => {
  const ended = run(begin, start, delta("A"), stop, stop);
  expect(ended).toHaveLength(2);
  const next = run(begin, start, delta("A"), stop, begin).slice(ended.length);
  expect(next).toMatchObject([
    { type: "warning", dropped_block: ended[1]?.type === "block_end" ? ended[1].block : 0 },
  ]);
  expect(run(begin, start, delta("A"), whole("A"), stop, begin)).toHaveLength(2);
});

test("equal texts of one message are two blocks; empty ones are none", () => {
  const twice = run(begin, start, delta("A"), whole("A"), stop, start, delta("A"), whole("A"), stop);
  expect(twice.filter(({ type }) => type === "text")).toHaveLength(2);
  expect(run(begin, start, whole(""), stop, whole(""))).toEqual([]);
});
