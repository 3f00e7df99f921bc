import fc from "fast-check";
import { expect, it } from "vitest";
import { globMatches } from "./glob.ts";

it("knows *, ** and ?, and that only ** goes over a slash", () => {
  expect(globMatches("github.com/acme/*", "github.com/acme/app")).toBe(true);
  expect(globMatches("github.com/acme/*", "github.com/acme/app/x")).toBe(false);
  expect(globMatches("github.com/**", "github.com/acme/app")).toBe(true);
  expect(globMatches("**/app", "github.com/acme/app")).toBe(true);
  expect(globMatches("a?c", "abc")).toBe(true);
  expect(globMatches("a?c", "a/c")).toBe(false);
  expect(globMatches("a.c", "abc")).toBe(false);
  expect(globMatches("GitHub.com/*", "github.COM/x")).toBe(true);
  expect(globMatches("", "")).toBe(true);
  expect(globMatches("*", "")).toBe(true);
  expect(globMatches("a", "ab")).toBe(false);
});

it("agrees with the regular expression that says the same", () => {
  const characters = fc.constantFrom("a", "b", "/", "*", "?", "**", ".");
  const pattern = fc.array(characters, { maxLength: 8 }).map((parts) => parts.join(""));
  const text = fc.array(fc.constantFrom("a", "b", "/", "."), { maxLength: 8 }).map((parts) => parts.join(""));
  const steps: Record<string, string> = { "**": ".*", "*": "[^/]*", "?": "[^/]", ".": "\\." };
  fc.assert(
    fc.property(pattern, text, (glob, name) => {
      const source = glob.replaceAll(/\*\*|[^]/g, (step) => steps[step] ?? step);
      expect(globMatches(glob, name)).toBe(new RegExp(`^${source}$`).test(name));
    }),
    { numRuns: 2000 },
  );
});

it("takes no longer for a pattern of many stars", () => {
  const started = performance.now();
  expect(globMatches("*a".repeat(200), "a".repeat(2000) + "b")).toBe(false);
  expect(performance.now() - started).toBeLessThan(2000);
});
