import fc from "fast-check";
import stringWidth from "string-width";
import { describe, expect, test } from "vitest";
import { aligned, cut, wrap } from "./columns.ts";

describe("a row", () => {
  test("is aligned by columns, not characters: wide, combined and painted ones", () => {
    const family = "👩‍👩‍👧‍👦";
    expect(
      aligned([
        ["日本", "a"],
        ["nai\u0308ve", "b"],
        [family, "c"],
        ["\u001b[31mred\u001b[39m", "d"],
      ]),
    ).toEqual(["日本   a", "nai\u0308ve  b", `${family}     c`, "\u001b[31mred\u001b[39m    d"]);
  });

  test.each([
    ["fits", 4, "fits"],
    ["too long", 5, "too …"],
    ["日本語", 6, "日本語"],
    ["日本語です", 6, "日本…"],
    ["日本語です", 7, "日本語…"],
    ["👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 4, "👩‍👩‍👧‍👦…"],
  ])("with %j is cut to %i columns as %j", (text, columns, result) => {
    expect(aligned([[text]], { columns, least: 1 })).toEqual([result]);
  });

  test.each([
    ["fits", 4, "fits"],
    ["https://h/acme/app", 9, "…acme/app"],
    ["日本語です", 6, "…です"],
    ["👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 4, "…👩‍👩‍👧‍👦"],
  ])("with %j is cut at the front to %i columns as %j", (text, columns, result) => {
    expect(aligned([[text]], { columns, least: 1, cutAt: "start" })).toEqual([result]);
  });
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
        for (const row of rows) expect(stringWidth(row)).toBeLessThanOrEqual(columns);
      }),
    );
  });
});

test("a text that is cut is never too wide, whatever stands at the cut", () => {
  const text = fc
    .array(fc.constantFrom("a", " ", "日", "😀", "é", "\u001b[31mx\u001b[39m"))
    .map((parts) => parts.join(""));
  fc.assert(
    fc.property(
      text,
      fc.integer({ min: 2, max: 12 }),
      fc.constantFrom("start", "end"),
      (line, columns, at) => {
        expect(stringWidth(cut(line, columns, at as "start" | "end"))).toBeLessThanOrEqual(columns);
      },
    ),
  );
});
