import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { cut, cutFront, pad, width, wrap } from "./width.ts";

describe("width", () => {
  test.each([
    ["", 0],
    ["plain", 5],
    ["naïve", 5],
    ["nai\u0308ve", 5],
    ["日本語", 6],
    ["ｆｕｌｌ", 8],
    ["한국어", 6],
    ["😀", 2],
    ["👩‍👩‍👧‍👦", 2],
    ["❤️", 2],
    ["🇩🇪", 2],
    ["− … –", 5],
    ["a\u200Bb", 2],
  ])("of %j is %i", (text, columns) => {
    expect(width(text)).toBe(columns);
  });
});

describe("cut", () => {
  test.each([
    ["fits", 4, "fits"],
    ["too long", 5, "too…"],
    ["日本語", 6, "日本語"],
    ["日本語です", 6, "日本…"],
    ["日本語です", 7, "日本語…"],
    ["👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 4, "👩‍👩‍👧‍👦…"],
  ])("%j to %i columns is %j", (text, columns, result) => {
    expect(cut(text, columns)).toBe(result);
  });
});

describe("cutting at the front", () => {
  test.each([
    ["fits", 4, "fits"],
    ["https://h/acme/app", 9, "…acme/app"],
    ["日本語です", 6, "…です"],
    ["a bc", 3, "…bc"],
    ["👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 4, "…👩‍👩‍👧‍👦"],
  ])("%j to %i columns is %j", (text, columns, result) => {
    expect(cutFront(text, columns)).toBe(result);
  });
});

test("padding counts columns, not characters", () => {
  expect(pad("日本", 6)).toBe("日本  ");
});

describe("wrap", () => {
  test("breaks at spaces where there are any, and inside a word that is too long", () => {
    expect(wrap("one two three", 8)).toEqual(["one two", "three"]);
    expect(wrap("abcdefghij", 4)).toEqual(["abcd", "efgh", "ij"]);
    expect(wrap("日本語です", 4)).toEqual(["日本", "語で", "す"]);
  });

  test("loses nothing but spaces at the breaks, and no row is too wide", () => {
    const text = fc.array(fc.constantFrom("a", "bc", " ", "日", "😀", "é")).map((parts) => parts.join(""));
    fc.assert(
      fc.property(text, fc.integer({ min: 2, max: 12 }), (line, columns) => {
        const rows = wrap(line, columns);
        expect(rows.join("").replaceAll(" ", "")).toBe(line.replaceAll(" ", ""));
        for (const row of rows) expect(width(row)).toBeLessThanOrEqual(columns);
      }),
    );
  });
});
