import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { matchesAny, matchesPath, matchesRepository } from "./match.ts";

/** The meaning of a glob, for texts that are too short to take long. */
const asExpression = (glob: string): RegExp => {
  const meanings: Record<string, string> = { "**": "[^]*", "*": "[^/]*", "?": "[^/]" };
  return new RegExp(
    `^${glob.replaceAll(/\*\*|[^]/g, (part) => meanings[part] ?? part.replace(/[.+]/, "\\$&"))}$`,
  );
};

const of = (signs: string, maxLength: number) =>
  fc.array(fc.constantFrom(...signs.split("")), { maxLength }).map((parts) => parts.join(""));

it("a glob matches exactly what it stands for: `*` within a name, `**` through directories, `?` one sign", () => {
  fc.assert(
    fc.property(of("ab/.*?", 9), of("ab/.", 9), (glob, path) => {
      expect([glob, path, matchesPath(glob, path)]).toEqual([glob, path, asExpression(glob).test(path)]);
    }),
    { numRuns: 20_000 },
  );
});

/** Processor time in ms. */
const costOf = (work: () => void): number => {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
};

describe("no glob costs more than its length times that of the text", () => {
  const length = 2000;
  it.each([
    ["**a**a**a**a**a**a**ab", "a".repeat(length)],
    [`${"**a".repeat(160)}b`, "a".repeat(length)],
    [`${"*a".repeat(240)}b`, "a".repeat(length)],
    ["**a*a*a*a*a*a*b", "aaaaaaaa/".repeat(length / 9)],
    [`**a*${"a".repeat(400)}b`, `${"a".repeat(length - 2)}/a`],
    ["**/**/**/**/**/**/b", "/".repeat(length)],
    [`${"?*".repeat(200)}b`, "a".repeat(length)],
    ["a/**b", `a${"/".repeat(length)}a`],
  ])("%.30s", (glob, text) => {
    expect(
      costOf(() => {
        for (let nth = 0; nth < 10; nth += 1) expect(matchesPath(glob, text)).toBe(false);
        expect(matchesRepository([glob], `https://x.example/${text}`)).toBe(false);
      }),
    ).toBeLessThan(1000);
  });
});

it("globs of a repository's checks that would take long to compare with what was changed count as fitting", () => {
  const globs = Array.from({ length: 100 }, () => `${"**a".repeat(160)}b`);
  const paths = Array.from({ length: 10_000 }, (_, nth) => `${nth}/${"a".repeat(200)}`);
  const cost = costOf(() => expect(matchesAny(globs, paths)).toBe(true));
  expect(cost + costOf(() => matchesAny(globs.slice(0, 1), paths.slice(0, 99)))).toBeLessThan(1000);
  expect(matchesAny(["docs/**", "*.md"], paths.slice(0, 1000))).toBe(false);
  expect(matchesAny(["docs/**", "*.md"], ["src/a.ts", "README.md"])).toBe(true);
});

it.each([
  ["git.example/acme/*", "https://git.example:9999/acme/app", false],
  ["git.example/acme/*", "https://git.example:443/acme/app", true],
  ["git.example/acme/*", "ssh://git@git.example:2222/acme/app", false],
  ["git.example:9999/acme/*", "https://git.example:9999/acme/app", true],
  ["https://git.example:9999/acme/app.git", "https://git.example:9999/acme/app", true],
  ["git.example:9999/acme/*", "https://git.example/acme/app", false],
  ["*.example/acme/app", "https://git.example:9999/acme/app", false],
  ["git.example/**", "http://127.0.0.1:9999/git.example/acme/app", false],
])("a port counts: %s and %s", (glob, url, matches) => {
  expect(matchesRepository([glob], url)).toBe(matches);
});
