import fc from "fast-check";
import { expect, test } from "vitest";
import { sanitise } from "../text/sanitise.ts";
import { createLiveSanitiser } from "./live-sanitise.ts";

const live = (pieces: string[]): string => {
  const sanitiser = createLiveSanitiser();
  return pieces.map(sanitiser.push).join("") + sanitiser.end();
};

test.each([
  ["a colour", ["\u001b[3", "1mred\u001b", "[0m"], "red"],
  ["a window title", ["\u001b]0;ow", "ned", "\u0007text"], "text"],
  ["a link with a string terminator", ["\u001b]8;;http://x\u001b", "\\text"], "text"],
  ["a line break of two characters", ["a\r", "\nb"], "a\nb"],
  ["a character of two halves", ["a\uD83D", "\uDE00b"], "a😀b"],
])("%s that is split between pieces is dealt with as a whole", (_what, pieces, shown) => {
  expect(live(pieces)).toBe(shown);
});

test("however a text is split, what is shown is that of the whole text", () => {
  const nasty = fc.array(
    fc.constantFrom(
      "\u001b",
      "[",
      "]",
      "\\",
      "P",
      "31",
      "m",
      "\u0007",
      "\r",
      "\n",
      "\uD83D",
      "\uDE00",
      "a ",
      "(",
      "\u009b",
    ),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(nasty, (pieces) => {
      expect(live(pieces)).toBe(sanitise(pieces.join("")));
    }),
    {
      numRuns: 2000,
    },
  );
});

test("what holds no sequence is shown at once", () => {
  const sanitiser = createLiveSanitiser();
  expect(["Hel", "lo ", "日本\n"].map(sanitiser.push)).toEqual(["Hel", "lo ", "日本\n"]);
});

test("a sequence without an end does not hold the text back for ever", () => {
  const sanitiser = createLiveSanitiser();
  expect(sanitiser.push("\u001b]0;title")).toBe("");
  expect(sanitiser.push("x".repeat(5000))).toContain("]0;titlexxx");
  expect(sanitiser.push("more")).toBe("more");
});
