import { expect, test } from "vitest";
import type { AgentEvent } from "../../contract/event.ts";
import { createRedactor } from "../../lib/redact.ts";
import { maskEvents } from "./mask-events.ts";

const secret = "sk-secret-0123456789";

const masked = (events: AgentEvent[]): AgentEvent[] => {
  const seen: AgentEvent[] = [];
  const mask = maskEvents(createRedactor([secret]), (event) => seen.push(event));
  for (const event of events) mask(event);
  return seen;
};

const pieces = (text: string, length: number): AgentEvent[] =>
  (text.match(new RegExp(`.{1,${length}}`, "gs")) ?? []).map((piece) => ({
    type: "text",
    block: 1,
    text: piece,
  }));

const end: AgentEvent = { type: "block_end", block: 1 };

const wordsOf = (events: AgentEvent[]): string =>
  events.map((event) => (event.type === "text" || event.type === "thinking" ? event.text : "")).join("");

test.each([1, 2, 3, 7, 19, 20, 21, 100])(
  "a secret that comes in pieces of %i characters is masked",
  (length) => {
    const events = masked([...pieces(`it is ${secret}, s sk-secret and ssk-${secret}!`, length), end]);
    expect(wordsOf(events)).toBe("it is ***, s sk-secret and ssk-***!");
    expect(events.at(-1)).toEqual(end);
  },
);

test("a false beginning of a secret is appended before the next event of another type or block", () => {
  const events: AgentEvent[] = [
    { type: "thinking", block: 1, text: "sk-sec" },
    { type: "text", block: 2, text: "ret-0123456789 sk" },
    { type: "text", block: 3, text: "-secret-0123456789" },
    { type: "exited", exit_code: 0, signal: null },
  ];
  expect(masked(events)).toEqual([
    events[0],
    { type: "text", block: 2, text: "ret-0123456789 " },
    { type: "text", block: 2, text: "sk" },
    events[2],
    events[3],
  ]);
});
