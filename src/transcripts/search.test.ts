import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { ServiceError } from "../contract/errors.ts";
import { openTranscriptIndex, type TranscriptIndex } from "./transcript-index.ts";
import {
  append,
  assistantLine,
  lines,
  newSource,
  question,
  quiet,
  userLine,
} from "./transcript-index.fixture.ts";

let index: TranscriptIndex;

const sessions: Record<string, unknown[]> = {
  one: [
    userLine("the quick brown fox jumps", { timestamp: "2026-01-01T10:00:00Z" }),
    assistantLine("a fox again", { timestamp: "2026-01-01T11:00:00Z" }),
  ],
  two: [userLine("brown quick animals", { cwd: "/srv/zoo", timestamp: "2026-02-01T12:00:00+02:00" })],
  three: [
    assistantLine([
      { type: "thinking", thinking: "perhaps a badger" },
      { type: "tool_use", id: "t", name: "Bash", input: { command: "grep -r wombat src/lib/log.ts" } },
    ]),
    userLine([{ type: "tool_result", tool_use_id: "t", content: "found an ocelot" }], {
      toolUseResult: { stdout: "found an ocelot" },
    }),
    userLine("Größe und Naïveté, 漢字"),
  ],
};

beforeAll(async () => {
  index = openTranscriptIndex({ path: join(await temporaryDirectory(), "t.db"), log: quiet });
  for (const [id, records] of Object.entries(sessions))
    await append(index, newSource("session", `/h/projects/p/${id}.jsonl`), lines(...records));
});

afterAll(() => index.close());

const found = (query: string, rest: Parameters<typeof question>[1] = {}): string[] =>
  index
    .search(question(query, rest))
    .matches.map(({ session_id }) => session_id)
    .toSorted();

test.each([
  ["quick brown", ["one", "two"]],
  ["BROWN", ["one", "two"]],
  ['"quick brown"', ["one"]],
  ['"quick brown', ["one"]],
  ["quick -fox", ["two"]],
  ['quick -"brown fox"', ["two"]],
  ["fox OR badger", ["one", "three"]],
  ["brown fox OR animals", ["one", "two"]],
  ["or fox", []],
  ["ani*", ["two"]],
  ["ani", []],
  ["wombat", ["three"]],
  ["badger", ["three"]],
  ["ocelot", ["three"]],
  ["Bash", ["three"]],
  ["src/lib/log.ts", ["three"]],
  ["grosse OR naivete", ["three"]],
  ["漢字", ["three"]],
  ["OR fox OR", ["one"]],
  ["fox --- ???", ["one"]],
])("%s finds %j", (query, expected) => {
  expect(found(query)).toEqual(expected);
});

test("a session is one match, its best entry, with the number of those that match", () => {
  const { total, matches } = index.search(question("fox"));
  expect({ total, matches: matches.length }).toEqual({ total: 1, matches: 1 });
  expect(matches[0]).toMatchObject({
    session_id: "one",
    num_hits: 2,
    entry_type: "assistant",
    content_preview: "a »fox« again",
    project_path: "/home/ana/app",
    timestamp: "2026-01-01T11:00:00.000Z",
  });
  expect(matches[0]?.score).toBeGreaterThan(0);
});

test("a tool's result is one hit, though its line repeats it, and no prompt", () => {
  expect(index.search(question("ocelot")).matches).toMatchObject([{ num_hits: 1, entry_type: "system" }]);
});

test("the preview is around the hit", async () => {
  const long = `${"before ".repeat(500)}needle${" after".repeat(500)}`;
  await append(index, newSource("session", "/h/projects/p/long.jsonl"), lines(userLine(long)));
  const preview = index.search(question("needle")).matches[0]?.content_preview ?? "";
  expect(preview).toContain("before »needle« after");
  expect(preview.length).toBeLessThan(400);
});

test("filters by project, role, time and session hold", () => {
  expect(found("quick", { project: "zoo" })).toEqual(["two"]);
  expect(found("quick", { project: "z%o" })).toEqual([]);
  expect(found("fox", { role: "user" })).toEqual(["one"]);
  expect(found("fox", { role: "summary" })).toEqual([]);
  expect(found("quick", { since: Date.parse("2026-02-01T10:00:00Z") })).toEqual(["two"]);
  expect(found("quick", { since: Date.parse("2026-02-01T10:00:00.001Z") })).toEqual([]);
  expect(found("quick", { until: Date.parse("2026-01-31T00:00:00Z") })).toEqual(["one"]);
  expect(found("quick", { exclude: ["one"] })).toEqual(["two"]);
  expect(index.search(question("fox", { role: "user" })).matches[0]?.num_hits).toBe(1);
});

test("cursors lead through all sessions once, and belong to one search", async () => {
  for (let n = 0; n < 7; n += 1)
    await append(index, newSource("session", `/h/projects/p/page-${n}.jsonl`), lines(userLine(`paged ${n}`)));
  const seen: string[] = [];
  let cursor = "";
  do {
    const page = index.search(question("paged", { limit: 3, cursor }));
    expect(page.total).toBe(7);
    seen.push(...page.matches.map(({ session_id }) => session_id));
    cursor = page.nextCursor ?? "";
  } while (cursor !== "");
  expect(new Set(seen).size).toBe(7);
  expect(seen).toHaveLength(7);
  const { nextCursor } = index.search(question("paged", { limit: 3 }));
  for (const wrong of ["nonsense", "{}", Buffer.from('{"offset":-1}').toString("base64url")])
    expect(() => index.search(question("paged", { cursor: wrong }))).toThrow(/cursor/);
  expect(() => index.search(question("fox", { cursor: nextCursor ?? "" }))).toThrow(/cursor/);
});

test("a prefix of one letter, which nearly every entry has, is refused", () => {
  expect(() => index.search(question("a*"))).toThrow(/at least two characters/);
});

/** A query has an answer, or it is refused with a reason. */
const outcome = (query: string): unknown => {
  try {
    return index.search(question(query)).total >= 0 ? "as it should" : "no total";
  } catch (error) {
    return error instanceof ServiceError && error.code === "invalid_request" ? "as it should" : error;
  }
};

test.each([
  "",
  "   ",
  "-fox",
  '""',
  "***",
  "OR",
  "NOT",
  "(",
  "-",
  "\u0000",
  "'; DROP TABLE texts; --",
  "text:fox",
  "NEAR(fox brown)",
  "fox NEAR/2 brown",
  "^fox",
  "{text}: fox",
  "fox AND",
  '"fox\u0000" OR',
  "\ud800",
  'a"b"c',
  "fox*".repeat(200),
  "* fox",
  'fox "',
  "+fox",
  "rowid:1",
  "a ".repeat(500),
])("the query %j is answered or refused", (query) => {
  expect(outcome(query)).toBe("as it should");
});

test("no text is a query that breaks the search", () => {
  const part = fc.constantFrom(
    "fox",
    "OR",
    "-",
    '"',
    "*",
    "(",
    ")",
    ":",
    "AND",
    "NOT",
    "NEAR",
    "^",
    "\u0000",
    "'",
    " ",
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.array(part, { maxLength: 30 }).map((parts) => parts.join("")),
        fc.string({ unit: "binary" }),
      ),
      (query) => outcome(query) === "as it should",
    ),
    { numRuns: 80 },
  );
});
