import { expect, test } from "vitest";
import { markdownTokens } from "../../web/src/parts/markdown-tokens.ts";

const times = (text: string, length: number): string => text.repeat(Math.ceil(length / text.length));
const lines = (line: (at: number) => string, count: number): string =>
  Array.from({ length: count }, (_, at) => line(at)).join("\n");

const hostile: Record<string, (length: number) => string> = {
  "nested quotes": (length) => times("> ", length),
  "nested quotes, line by line": (length) => lines((at) => times(">", at), Math.sqrt(length)),
  "nested lists": (length) => `${times("- ", length)}a`,
  "numbered lists": (length) => `${times("1. ", length)}a`,
  "lists by their indent": (length) => lines((at) => `${times(" ", at * 2)}- a`, Math.sqrt(length)),
  brackets: (length) => `${times("[", length / 2)}a${times("](b)", length / 2)}`,
  "pictures without an end": (length) => times("![", length),
  "stars around a letter": (length) => `${times("*", length / 2)}a${times("*", length / 2)}`,
  "emphasis without an end": (length) => times("*a _b ", length),
  "nested emphasis": (length) => `${times("*a **b ", length / 2)}${times("c** d*", length / 2)}`,
  underscores: (length) => `${times("_", length)}a`,
  backticks: (length) => lines((at) => times("`", at), Math.sqrt(length)),
  "a wide table": (length) => ["|a", "|-", "|b"].map((cell) => times(cell, length / 3)).join("\n"),
  "tags without an end": (length) => times("<a ", length),
  "short paragraphs": (length) => times("a\n\n", length),
  "signs in short paragraphs": (length) => times(`${times("*a _b ", 900)}\n\n`, length),
  "quotes and breaks": (length) => times(">>\n\\ \n", length),
  "quotes that go on": (length) => times(">>\na\n", length),
  "empty entries": (length) => times("a\n-\n", length),
  "entries that are half a link": (length) => times("-\n\t(", length),
};

const usual = [
  "# Title\n\nText with *some* **emphasis** and `code_with_names`.",
  `> quote\n> > in a quote\n\n${lines((at) => `${times("  ", at * 2)}- level ${at}`, 8)}`,
  `| a | b |\n|${"-".repeat(60)}|---|\n| snake_case_name | **b** |`,
  `${"-".repeat(80)}\n${"* ".repeat(10)}\n${"=".repeat(80)}`,
  `\`\`\`ts\n${lines((at) => `const some_name_${at} = ${at} * 2;`, 100)}\n\`\`\``,
].join("\n\n");

/** Processor time of one reading in milliseconds: noise only adds, so the least of three counts. */
const costMs = (text: string): number =>
  Math.min(
    ...[1, 2, 3].map(() => {
      const began = process.cpuUsage();
      markdownTokens(text);
      return process.cpuUsage(began).user / 1000;
    }),
  );

const plainMs = costMs(times(`${usual}\n\n`, 100_000));

// At most 10,000 characters are read at once; half of them show what grows faster than they do.
test.each(Object.keys(hostile))("5000 characters of %s cost less than 5,000,000 usual ones", (name) => {
  expect(costMs(hostile[name]?.(5000) ?? "")).toBeLessThan(50 * plainMs);
});

test("what nests too deep is shown as it was written; what people write is not", () => {
  expect(markdownTokens(`${"> ".repeat(10_000)}a`)).toBeNull();
  expect(markdownTokens(usual)?.map(({ type }) => type)).toEqual(
    expect.arrayContaining(["heading", "paragraph", "blockquote", "list", "table", "hr", "code"]),
  );
});
