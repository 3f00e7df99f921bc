import { expect, test } from "vitest";
import { firstText, plainLines } from "./plain.ts";

test("a value of JSON is lines of names and values, without a sign of JSON", () => {
  const input = {
    questions: [{ question: "Which database?", options: [{ label: "SQLite" }, { label: "Postgres" }] }],
    multi_select: false,
    note: "one\ntwo",
    none: null,
  };
  expect(plainLines(input)).toEqual([
    "questions:",
    "  1:",
    "    question: Which database?",
    "    options:",
    "      1:",
    "        label: SQLite",
    "      2:",
    "        label: Postgres",
    "multi select: false",
    "note:",
    "  one",
    "  two",
    "none: null",
  ]);
  expect(plainLines(input).join("\n")).not.toMatch(/[{}[\]"]/);
});

test.each([
  [{ questions: [{ question: "Which one?" }] }, "Which one?"],
  [{ count: 3, deep: [[], { a: { b: "here" } }] }, "here"],
  [{ count: 3 }, ""],
  [null, ""],
])("of %j the first text is %j", (value, text) => {
  expect(firstText(value)).toBe(text);
});
