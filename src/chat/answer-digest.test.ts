import fc from "fast-check";
import { expect, test } from "vitest";
import { createAnswerDigest, digestOf } from "./answer-digest.ts";

test("the digest is the same however the answer is cut, trimmed and wrapped", () => {
  const pieces = fc.array(fc.string({ unit: fc.nat(0xffff).map((code) => String.fromCharCode(code)) }));
  fc.assert(
    fc.property(pieces, fc.constantFrom("", " ", "\n", "\r\n\t"), (list, gap) => {
      const answer = createAnswerDigest();
      for (const piece of list) answer.push(piece);
      expect(answer.digest()).toBe(digestOf(list.join(gap)));
      expect(answer.digest()).toBe(digestOf(`${gap}${list.join("")}${gap}`));
    }),
  );
});

test("a character that is cut in two is the character", () => {
  const answer = createAnswerDigest();
  answer.push("\ud83d");
  answer.push("\ude80");
  expect(answer.digest()).toBe(digestOf("🚀"));
});

test("another answer has another digest, and it can be asked for in between", () => {
  const answer = createAnswerDigest();
  answer.push("one");
  expect(answer.digest()).toBe(digestOf("one"));
  answer.push("two");
  expect(answer.digest()).toBe(digestOf("one two"));
  expect(answer.digest()).not.toBe(digestOf("one three"));
  expect(digestOf("")).toMatch(/^[0-9a-f]{64}$/);
});
