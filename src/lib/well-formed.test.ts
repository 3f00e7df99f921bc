import { expect, test } from "vitest";
import { parseJson, toJson } from "./well-formed.ts";

test("halves of a character and NUL become U+FFFD; whole characters and escaped escapes stay", () => {
  for (const [text, expected] of [
    ["hat \ud83d…", "hat \uFFFD…"],
    ["\ude00 alone", "\uFFFD alone"],
    ["a\0b", "a\uFFFDb"],
    ["whole \u{1F389} \ud83d", "whole \u{1F389} \uFFFD"],
    ["a path C:\\ud83d and \\u0000", "a path C:\\ud83d and \\u0000"],
  ] as const) {
    expect(JSON.parse(toJson({ [text]: [text] }))).toEqual({ [expected]: [expected] });
    expect(parseJson(JSON.stringify({ [text]: [text] }))).toEqual({ [expected]: [expected] });
  }
  expect(parseJson(String.raw`"\ud83d\ude00 \ud83d"`)).toBe("\u{1F600} \uFFFD");
});
