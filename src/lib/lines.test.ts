import fc from "fast-check";
import { expect, test } from "vitest";
import { longestBlock } from "../../test/longest-block.ts";
import { createLineSplitter } from "./lines.ts";

const splitLines = (chunks: Buffer[], maxBytes?: number): { lines: string[]; oversized: number[] } => {
  const lines: string[] = [];
  const oversized: number[] = [];
  const splitter = createLineSplitter({
    onLine: (line) => lines.push(line),
    onOversized: (bytes) => oversized.push(bytes),
    ...(maxBytes !== undefined && { maxBytes }),
  });
  for (const chunk of chunks) splitter.push(chunk);
  splitter.end();
  return { lines, oversized };
};

const cut = (bytes: Buffer, points: number[]): Buffer[] => {
  const at = [
    0,
    ...points.map((point) => point % (bytes.length + 1)).toSorted((a, b) => a - b),
    bytes.length,
  ];
  return at.slice(1).map((end, index) => bytes.subarray(at[index], end));
};

const line = fc.string({ unit: "grapheme", maxLength: 30 }).filter((text) => !text.includes("\n"));

test("lines are the same wherever the bytes are split", () => {
  fc.assert(
    fc.property(fc.array(line), fc.boolean(), fc.array(fc.nat()), (lines, ended, points) => {
      const text = lines.join("\n") + (ended && lines.length > 0 ? "\n" : "");
      const expected = text === "" ? [] : text.replace(/\n$/, "").split("\n");
      expect(splitLines(cut(Buffer.from(text), points)).lines).toEqual(expected);
    }),
  );
});

test("a line beyond the limit is dropped with its length, and only that one", () => {
  fc.assert(
    fc.property(
      fc.array(line, { minLength: 1 }),
      fc.nat(40),
      fc.array(fc.nat()),
      (lines, maxBytes, points) => {
        const result = splitLines(
          cut(Buffer.from(lines.map((text) => `${text}\n`).join("")), points),
          maxBytes,
        );
        const fits = (text: string): boolean => Buffer.byteLength(text) <= maxBytes;
        expect(result.lines).toEqual(lines.filter(fits));
        expect(result.oversized).toEqual(
          lines.filter((text) => !fits(text)).map((text) => Buffer.byteLength(text)),
        );
      },
    ),
  );
});

test("250 MB of lines take seconds, not minutes", async () => {
  const chunk = Buffer.from(`${"x".repeat(999)}\n`.repeat(64));
  let count = 0;
  const splitter = createLineSplitter({ onLine: () => (count += 1), onOversized: () => {} });
  const ms = await longestBlock(async () => {
    for (let bytes = 0; bytes < 250e6; bytes += chunk.length) splitter.push(chunk);
  });
  expect(count).toBeGreaterThanOrEqual(250_000);
  expect(ms).toBeLessThan(10_000);
});
