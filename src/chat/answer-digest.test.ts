import { hash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { longestBlock } from "../../test/longest-block.ts";
import { createAnswerDigest, digestOf } from "./answer-digest.ts";

const unit = fc.oneof(
  fc.constantFrom(" ", "\n", "\t", "\u00a0", "\u2003", "\u2028", "\u3000", "\ufeff", "\ud83d", "\ude00"),
  fc.nat(0xffff).map((code) => String.fromCharCode(code)),
);

test("an answer has the same digest in any pieces and with any whitespace", () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit })), (pieces) => {
      const answer = createAnswerDigest();
      for (const piece of pieces) answer.push(piece);
      const bare = pieces.join("").replace(/\s+/g, "");
      expect(answer.digest()).toBe(hash("sha256", Buffer.from(bare, "utf16le")));
    }),
  );
});

test("an answer of very many words holds nobody up", async () => {
  const words = "a ".repeat(9_500_000);
  // A tenth of a second on a core of its own; to replace the spaces took seconds.
  expect(await longestBlock(async () => digestOf(words))).toBeLessThan(1000);
});
