import { mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { openTranscriptIndex } from "./transcript-index.ts";
import { all, call, open, openAt, result } from "./open-index.fixture.ts";
import {
  append,
  assistantLine,
  lines,
  newSource,
  question,
  quiet,
  userLine,
} from "./transcript-index.fixture.ts";

const list = { project: "", limit: 100, offset: 0, updatedSince: 0 };

test("a session's facts stay right when more of it comes", async () => {
  const index = await open();
  const first = userLine("Fix the parser");
  let source = await append(
    index,
    newSource("session", "/h/projects/p/s1.jsonl"),
    lines(first, assistantLine("Hello")),
  );
  const next = userLine("And the lexer");
  const last = assistantLine([call("Bash", { command: "make test" })]);
  source = await append(index, source, lines(next, last));
  expect(index.session("s1")).toMatchObject({
    summary: "Fix the parser",
    start_time: first.timestamp,
    last_update: last.timestamp,
    num_user_turns: 2,
    num_assistant_turns: 2,
    num_tool_calls: 1,
    total_tokens: 20,
    project_path: "/home/ana/app",
    git_branch: "main",
    model: "claude-opus-4-8",
    cost_usd: null,
    kind: "session",
    title: "",
    transcript_path: "/h/projects/p/s1.jsonl",
  });
  await append(
    index,
    source,
    lines({ type: "ai-title", aiTitle: "By a model" }, { type: "summary", summary: "Short" }),
  );
  expect(index.session("s1")).toMatchObject({ title: "By a model", summary: "Short", num_user_turns: 2 });
});

test("entries are read by position, from the end and within a time", async () => {
  const index = await open();
  const records = Array.from({ length: 9 }, (_, n) =>
    userLine(`prompt ${n}`, { timestamp: `2026-03-02T09:0${n}:00Z` }),
  );
  await append(index, newSource("session", "/h/projects/p/s.jsonl"), lines(...records));
  const contents = (range: object) =>
    index.entries("s", { ...all, ...range }).items.map(({ content }) => content.at(-1));
  expect(contents({ offset: 2, limit: 2 })).toEqual(["2", "3"]);
  expect(contents({ offset: -3 })).toEqual(["6", "7", "8"]);
  expect(contents({ offset: -30 })).toHaveLength(9);
  expect(
    contents({
      since: Date.parse("2026-03-02T10:03:00+01:00"),
      until: Date.parse("2026-03-02T09:05:00Z"),
      offset: 1,
    }),
  ).toEqual(["4", "5"]);
  expect(index.entries("s", { ...all, since: Date.parse("2026-03-02T09:03:00Z"), limit: 1 }).total).toBe(6);
});

test("a subagent is found under its session, which lists only its own entries", async () => {
  const index = await open();
  await append(
    index,
    newSource("subagent", "/h/projects/p/s/subagents/agent-1.jsonl", { session_id: "s" }),
    lines(
      userLine("Explore the wombats", { isSidechain: true }),
      assistantLine("Seen", { isSidechain: true }),
    ),
  );
  expect(index.search(question("wombats")).matches).toMatchObject([{ session_id: "s" }]);
  await append(index, newSource("session", "/h/projects/p/s.jsonl"), lines(userLine("Start")));
  expect(index.search(question("wombats")).matches).toMatchObject([{ session_id: "s" }]);
  expect(index.session("s")).toMatchObject({
    has_subagents: true,
    num_user_turns: 1,
    total_tokens: 10,
    summary: "Start",
  });
  expect(index.entries("s", all).total).toBe(1);
});

test("a hit in a subagent leads to where its session was at that time", async () => {
  const index = await open();
  const at = (minute: number) => ({ timestamp: `2026-03-02T09:${minute}:00Z` });
  await append(
    index,
    newSource("subagent", "/h/projects/p/s/subagents/agent-1.jsonl", { session_id: "s" }),
    lines(userLine("Explore the wombats", at(25))),
  );
  await append(
    index,
    newSource("session", "/h/projects/p/s.jsonl"),
    lines(userLine("Start", at(10)), assistantLine("Go on", at(20)), assistantLine("Done", at(30))),
  );
  expect(index.search(question("wombats")).matches).toMatchObject([{ position: 1 }]);
});

test("a replaced file replaces everything, a removed source takes it all away", async () => {
  const index = await open();
  const first = await append(
    index,
    newSource("session", "/h/projects/p/s.jsonl"),
    lines(userLine("wombat", { slug: "old-plan" })),
  );
  const next = await append(index, { ...first, generation: 1, collected: 0 }, lines(userLine("badger")));
  expect([index.search(question("wombat")).total, index.search(question("badger")).total]).toEqual([0, 1]);
  expect(index.session("s")).toMatchObject({ summary: "badger", num_user_turns: 1, codename: "" });
  await index.remove([next.id, "unknown"]);
  expect(index.session("s")).toBeNull();
  expect([
    index.search(question("badger")).total,
    index.listSessions(list).total,
    (await index.sources()).size,
  ]).toEqual([0, 0, 0]);
});

test("a session outlives its file, and a copy of it does not count twice", async () => {
  const index = await open();
  const text = lines(userLine("wombat"));
  const source = await append(index, newSource("session", "/h/projects/p/s.jsonl"), text);
  expect(await index.put({ ...source, deleted: true })).toBe(true);
  expect((await index.sources()).get(source.id)?.deleted).toBe(true);
  await append(index, newSource("session", "/copy/projects/p/s.jsonl"), text);
  expect(index.search(question("wombat"))).toMatchObject({ total: 1, matches: [{ num_hits: 1 }] });
  expect(index.session("s")).toMatchObject({
    num_user_turns: 1,
    transcript_path: "/copy/projects/p/s.jsonl",
  });
});

test("two processes on one file: the slower writer is refused and nothing is stored twice", async () => {
  const path = join(await temporaryDirectory(), "bridge", "t.db");
  const [one, two] = [openAt(path), openAt(path)];
  const empty = newSource("session", "/h/projects/p/s.jsonl");
  const source = await append(one, empty, lines(userLine("wombat")));
  const bytes = Buffer.from(lines(userLine("wombat")));
  const chunk = { from: 0, bytes };
  expect(await two.put({ ...empty, collected: bytes.length }, chunk)).toBe(false);
  expect(await two.put({ ...empty, generation: -1 })).toBe(false);
  expect(await two.put({ ...source, collected: source.collected + 5 })).toBe(false);
  await append(two, source, lines(userLine("wombat again")));
  expect(one.session("s")?.num_user_turns).toBe(2);
  expect((statSync(path).mode & 0o777).toString(8)).toBe("600");
  expect((statSync(dirname(path)).mode & 0o777).toString(8)).toBe("700");
});

test.each([1, 99])("a file of format %d is refused", async (format) => {
  const path = join(await temporaryDirectory(), "bridge", "t.db");
  mkdirSync(dirname(path));
  const { DatabaseSync } = await import("node:sqlite");
  const file = new DatabaseSync(path);
  file.exec(`PRAGMA user_version = ${format}`);
  file.close();
  expect(() => openTranscriptIndex({ path, log: quiet })).toThrow(
    /has format \d+, and this version reads \d+: .*remove the file/,
  );
});

test("a copy of a session under another name of the machine counts once, subagents too", async () => {
  const index = await open();
  const answers = { session: assistantLine("a wombat"), subagent: assistantLine("a wombat") };
  for (const machine of ["one", "two", "three"])
    for (const kind of ["session", "subagent"] as const) {
      const answer = answers[kind];
      const name = kind === "session" ? "s" : "agent-1";
      const source = newSource(kind, `/h/projects/p/${name}.jsonl`, { session_id: "s", machine });
      await append(index, { ...source, id: `${machine} ${kind}` }, lines({ ...answer, costUSD: 0.5 }));
    }
  expect(index.session("s")).toMatchObject({ total_tokens: 20, cost_usd: 1 });
  expect(index.search(question("wombat")).matches).toMatchObject([{ num_hits: 2 }]);
});

test("of the names of a session's plan the last fifty are kept", async () => {
  const index = await open();
  const named = Array.from({ length: 60 }, (_, number) => assistantLine("x", { slug: `plan-${number}` }));
  await append(index, newSource("session", "/h/projects/p/s.jsonl"), lines(...named));
  expect(index.session("s")?.codename).toBe("plan-59");
  await append(index, newSource("plan", "/h/plans/plan-59.md"), "x");
  await append(index, newSource("plan", "/h/plans/plan-0.md"), "x");
  expect(index.plan("plan-59")?.session_ids).toEqual(["s"]);
  expect(index.plan("plan-0")?.session_ids).toEqual([]);
});

const line = fc.oneof(
  fc.string({ maxLength: 30 }).map((text) => userLine(`word ${text}`)),
  fc.string({ maxLength: 30 }).map((text) => assistantLine(`answer ${text}`, { slug: "calm-fox" })),
  fc.integer({ min: 1, max: 3 }).map((n) => ({
    ...assistantLine([call("Bash", { command: `run ${n}` })]),
    message: { id: `m${n}`, content: [call("Bash", { command: `run ${n}` })], usage: { output_tokens: n } },
  })),
  fc.string({ maxLength: 10 }).map((text) => ({ type: "summary", summary: `sum ${text}` })),
  fc.constantFrom("{broken", { type: "unknown" }, { type: "custom-title", customTitle: "T" }),
  fc.string({ maxLength: 20 }).map((text) => userLine([result(text)], { cwd: "/other" })),
);

test("however a file is split, the index is the same as after one reading", async () => {
  const index = await open();
  let runs = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(line, { minLength: 1, maxLength: 25 }),
      fc.array(fc.nat(), { maxLength: 8 }),
      fc.boolean(),
      async (records, cuts, isReplaced) => {
        const run = (runs += 1);
        const each = records.map((record) => lines(record));
        const state = async (name: string, parts: string[]) => {
          let source = newSource("session", `/h/projects/p/${name}.jsonl`);
          if (isReplaced && parts.length > 1)
            source = {
              ...(await append(index, source, lines(userLine("gone word")))),
              generation: 1,
              collected: 0,
            };
          for (const part of parts) source = await append(index, source, part);
          const found = ["word", "answer", "run", "sum"].map((query) =>
            index
              .search(question(query, { limit: 100_000 }))
              .matches.find(({ session_id }) => session_id === name),
          );
          const { session_id: _, transcript_path: __, ...meta } = index.session(name) ?? {};
          return {
            meta,
            entries: index.entries(name, all),
            actions: await index.actions(name, ["tool_use", "tool_result"]),
            hits: found.map((match) => [match?.num_hits, match?.uuid]),
          };
        };
        const borders = [
          ...new Set([0, ...cuts.map((cut) => cut % (each.length + 1)), each.length]),
        ].toSorted((a, b) => a - b);
        const parts = borders.slice(1).map((end, at) => each.slice(borders[at], end).join(""));
        const whole = await state(`whole-${run}`, [each.join("")]);
        await index.remove([newSource("session", `/h/projects/p/whole-${run}.jsonl`).id]);
        expect(await state(`parts-${run}`, parts)).toEqual(whole);
        await index.remove([newSource("session", `/h/projects/p/parts-${run}.jsonl`).id]);
      },
    ),
    { numRuns: 20 },
  );
});
