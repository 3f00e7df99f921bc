import fc from "fast-check";
import { expect, test } from "vitest";
import { createTailBuffer, cutFront, cutMarker } from "./tail-buffer.ts";

const bytesOf = (text: string): number => Buffer.byteLength(text);
const text = fc.string({ unit: "grapheme", maxLength: 200 });

test("a text that fits is unchanged", () => {
  fc.assert(
    fc.property(text, fc.nat(20), (whole, spare) => {
      expect(cutFront(whole, bytesOf(whole) + spare)).toBe(whole);
    }),
  );
});

test("a longer text becomes the marker and the longest end that fits", () => {
  // A text may hold the character that stands for what is none.
  const long = text.filter((whole) => bytesOf(whole) > 30 && !whole.includes("\ufffd"));
  fc.assert(
    fc.property(long, fc.nat(), (whole, some) => {
      const least = bytesOf(cutMarker) + 4;
      const limit = least + (some % (bytesOf(whole) - least));
      const kept = cutFront(whole, limit);
      expect(bytesOf(kept)).toBeLessThanOrEqual(limit);
      expect(bytesOf(kept)).toBeGreaterThan(limit - 4);
      expect(kept.startsWith(cutMarker)).toBe(true);
      expect(whole.endsWith(kept.slice(cutMarker.length))).toBe(true);
      expect(kept).not.toContain("\ufffd");
    }),
  );
});

test("a limit too small for the marker gives the bare end", () => {
  expect(cutFront("abcdefgh", 3)).toBe("fgh");
  expect(cutFront("aäöü", 3)).toBe("ü");
  expect(cutFront("abc", 0)).toBe("");
});

test("the buffer of a stream equals the cut of the complete text", () => {
  fc.assert(
    fc.property(fc.array(text), fc.integer({ min: 0, max: 300 }), (pieces, limit) => {
      const buffer = createTailBuffer(limit);
      for (const piece of pieces) buffer.push(piece);
      expect(buffer.text()).toBe(cutFront(pieces.join(""), limit));
      expect(buffer.total()).toBe(bytesOf(pieces.join("")));
    }),
  );
});

test("never more than the limit, whatever the bytes are", () => {
  fc.assert(
    fc.property(
      fc.array(fc.uint8Array({ maxLength: 100 })),
      fc.integer({ min: 0, max: 200 }),
      (chunks, limit) => {
        const buffer = createTailBuffer(limit);
        for (const chunk of chunks) buffer.push(Buffer.from(chunk));
        expect(bytesOf(buffer.text())).toBeLessThanOrEqual(limit);
      },
    ),
  );
});
