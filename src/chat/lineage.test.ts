import { expect, test } from "vitest";
import { digestOf } from "./answer-digest.ts";
import type { ChatMessage } from "./chat.ts";
import { isOfSession } from "./prompt.ts";

const told = (...answers: string[]): ChatMessage[] => [
  { role: "user", content: [{ type: "text", text: "hello" }] },
  ...answers.map((text): ChatMessage => ({ role: "assistant", content: [{ type: "text", text }] })),
];
const gave = (...answers: string[]) => ({
  answers: answers.map((text) => (text === "*" ? "*" : digestOf(text))),
});

test.each([
  ["the very answers of the session", told("a", "b"), gave("a", "b"), true],
  ["the answers with other whitespace", told(" a\n x"), gave("a x"), true],
  ["no answers at all: the first message alone resumes", told(), gave("a", "b"), true],
  ["an answer that the session never gave", told("a", "c"), gave("a", "b"), false],
  ["fewer answers: the conversation went another way", told("a"), gave("a", "b"), false],
  ["more answers than were given", told("a", "b"), gave("a"), false],
  ["an answer in place of one that was cut short", told("a", "par"), gave("a", "*"), true],
  ["one that was cut short left out", told("a", "c"), gave("a", "*", "c"), true],
  ["two left out, one told", told("x", "c"), gave("*", "*", "c"), true],
  ["a foreign answer beside one that was cut short", told("a", "x", "d"), gave("a", "*", "c"), false],
])("%s: goes on is %4$s", (_, messages, record, expected) => {
  expect(isOfSession(messages)(record)).toBe(expected);
});
