import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { flagWords, oneLine, sanitise } from "./sanitise.ts";

describe("sanitise", () => {
  test.each([
    ["a colour", "\u001b[31mred\u001b[0m", "red"],
    ["clearing the screen", "a\u001b[2J\u001b[Hb", "ab"],
    ["a new window title, ended by a notifier", "\u001b]0;owned\u0007text", "text"],
    ["a link, ended by a string terminator", "\u001b]8;;http://x\u001b\\text", "text"],
    ["writing to the clipboard", "\u001b]52;c;aGk=\u0007text", "text"],
    ["a device control string", "\u001bPq#0\u001b\\text", "text"],
    ["a full reset", "\u001bctext", "text"],
    ["a character set switch", "\u001b(0text", "text"],
  ])("drops %s", (_what, hostile, harmless) => {
    expect(sanitise(hostile)).toBe(harmless);
  });

  test.each([
    ["a sequence without an end", "\u001b]0;title", "\u{FFFD}]0;title"],
    ["an escape alone at the end", "text\u001b", "text\u{FFFD}"],
    ["the one-character form of a sequence", "\u009b31mred", "\u{FFFD}31mred"],
    ["a notifier and a backspace", "a\u0007b\u0008c", "a\u{FFFD}b\u{FFFD}c"],
    ["text written from right to left", "safe\u202Egnp.exe", "safe\u{FFFD}gnp.exe"],
    ["invisible tag characters", "a\u{E0041}b", "a\u{FFFD}b"],
    ["half a character", "a\uD83Db", "a\u{FFFD}b"],
  ])("shows %s as a replacement character", (_what, hostile, harmless) => {
    expect(sanitise(hostile)).toBe(harmless);
  });

  test("keeps line breaks, and turns other ends of lines and tabs into plain ones", () => {
    expect(sanitise("a\r\nb\rc\n\td — 日本語 😀")).toBe("a\nb\nc\n  d — 日本語 😀");
  });

  test("lets no control character through, whatever it is given", () => {
    const nasty = fc.array(
      fc.constantFrom(
        "\u001b",
        "[",
        "]",
        "0",
        ";",
        "m",
        "\u0007",
        "\\",
        "\u009b",
        "\n",
        "\r",
        "x",
        "\u{202E}",
      ),
    );
    fc.assert(
      fc.property(
        fc.oneof(
          nasty.map((parts) => parts.join("")),
          fc.string({ unit: "binary" }),
        ),
        (text) => {
          expect(sanitise(text)).not.toMatch(/[[\p{Cc}\p{Bidi_Control}]--[\n]]/v);
        },
      ),
    );
  });

  test.each(["\u001b]", "\u001b[", "\u001b[1;", "\u001bP", "\u001b ", "\u001b[ "])(
    "takes a moment for a megabyte of %j",
    (part) => {
      const begin = process.threadCpuUsage();
      sanitise(part.repeat(1_000_000 / part.length));
      const { user, system } = process.threadCpuUsage(begin);
      expect((user + system) / 1000).toBeLessThan(2000);
    },
  );
});

test("a line is made of any text", () => {
  expect(oneLine("  a\r\n\tb\u001b[0m  c ")).toBe("a b c");
});

test("a sentence of the service names flags instead of parameters", () => {
  expect(flagWords("base_ref: no such branch; leave worktree_id out, or use force: then it is saved")).toBe(
    "--base-ref: no such branch; leave --worktree-id out, or use --force: then it is saved",
  );
  expect(flagWords("repo_url: the worktree has another; my_base_ref stays")).toBe(
    "--repo: the worktree has another; my_base_ref stays",
  );
});
