import { hash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
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

test("an answer of very many words holds nobody up", () => {
  const words = "a ".repeat(9_500_000);
  const before = process.cpuUsage();
  digestOf(words);
  const { user, system } = process.cpuUsage(before);
  // A tenth of a second; to replace the spaces took seconds.
  expect((user + system) / 1000).toBeLessThan(1000);
});
