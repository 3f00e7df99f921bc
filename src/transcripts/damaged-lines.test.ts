import { expect, test } from "vitest";
import { all, open } from "./open-index.fixture.ts";
import { append, assistantLine, lines, newSource, question, userLine } from "./transcript-index.fixture.ts";

const nul = "\0".repeat(70_000);

/** Ways in which two records can stand on one line, with how many are whole and how many lines lose something. */
const damages: Record<string, (one: string, two: string) => [text: string, whole: number, damaged: number]> =
  {
    "two on one line": (one, two) => [`${one}${two}\n`, 2, 0],
    "two on one line, with white space": (one, two) => [`${one} \r ${two}\n`, 2, 0],
    "after NULs": (one, two) => [`${nul}${one}\n${two}\n`, 2, 0],
    "NULs between": (one, two) => [`${one}${nul}${two}\n`, 2, 0],
    "after a torn one": (one, two) => [`${one.slice(0, -40)}${two}\n`, 1, 1],
    "after one that is torn in a text": (one, two) => [
      `${one.slice(0, one.indexOf("wombat") + 3)}${two}\n`,
      1,
      1,
    ],
    "a torn one between": (one, two) => [`${one}${one.slice(0, 60)}${two}\n`, 2, 1],
    "before a torn one": (one, two) => [`${one}${two.slice(0, 50)}\n`, 1, 1],
    "NULs in a torn one": (one, two) => [`${one.slice(0, -30)}${nul}${two}\n`, 1, 1],
    "the end of a torn one": (one, two) => [`${one.slice(30)}\n${two}\n`, 1, 1],
  };

test.each(Object.entries(damages))("whole records on a damaged line are taken: %s", async (_, damage) => {
  const index = await open();
  const record = (kind: typeof userLine, words: string) =>
    JSON.stringify(kind(`a ${words} said: {"type":"user"} {"a":"`));
  const [text, whole, damaged] = damage(record(userLine, "wombat"), record(assistantLine, "badger"));
  await append(index, newSource("session", "/h/projects/p/s.jsonl"), `${text}${lines(userLine("after it"))}`);
  const contents = index.entries("s", all).items.map(({ content }) => content);
  expect(contents).toHaveLength(whole + 1);
  expect(contents.at(-1)).toBe("after it");
  for (const content of contents.slice(0, -1)) expect(content).toMatch(/^a (?:wombat|badger) said: /);
  expect(index.search(question("wombat OR badger")).matches[0]?.num_hits).toBe(whole);
  expect(index.unread().damaged_lines).toBe(damaged);
  expect((await index.actions("s", ["tool_use"])).actions).toEqual([]);
});

const envelope = { parentUuid: null, isSidechain: false };
/** Lines of the CLI's own, of which the beginning tells the kind. */
const ownLines = [
  { type: "file-history-snapshot", snapshot: { files: [{ a: "ends with {" }, { type: "\\" }] } },
  { type: "mode", mode: "plan", sessionId: "s" },
  { ...envelope, attachment: { type: "skill_listing", content: 'so: {"type":"user"}' }, type: "attachment" },
].map((own) => JSON.stringify(own));

test.each(ownLines)("so are they beside a line of the CLI's own: %s", async (own) => {
  const index = await open();
  const record = (words: string) => JSON.stringify({ ...envelope, ...userLine(words) });
  const torn = [1, 9, own.indexOf(":") + 1, own.indexOf(",") + 1].map((length) => own.slice(0, length));
  const text = [
    own,
    `${own} \r`,
    `${own}${record("one")}`,
    `${record("two")}${own}`,
    `${own}${nul}${own}${JSON.stringify(assistantLine("three"))}`,
    ...torn.map((part) => `${part}${record("torn")}`),
    `${own.slice(0, -1)}${record("four")}`,
    own.slice(0, -1),
  ];
  await append(index, newSource("session", "/h/projects/p/s.jsonl"), `${text.join("\n")}\n`);
  const contents = index.entries("s", all).items.map(({ content }) => content);
  expect(contents).toEqual(["one", "two", "three", ...torn.map(() => "torn"), "four"]);
  expect(index.unread()).toEqual({ damaged_lines: 6, unknown_lines: {} });
});

test("kinds that are not known are named up to a bound, and the others counted", async () => {
  const index = await open();
  const kinds = (name: string, count: number) =>
    Array.from({ length: count }, (_, n) => ({ type: `${name}${n}` }));
  const path = "/h/projects/p/s.jsonl";
  const source = await append(index, newSource("session", path), lines(...kinds("a", 60)));
  await append(index, source, lines({ type: "a0" }, { type: "a59" }));
  const { a0, "(others)": others, ...rest } = index.unread().unknown_lines;
  expect([a0, others, Object.keys(rest).length]).toEqual([2, 11, 49]);
  const attached = { type: "response_item", payload: { type: "weather" } };
  const more = lines(attached, ...kinds("b", 30));
  await append(index, newSource("codex", "/c/sessions/rollout-1.jsonl"), more);
  const all = index.unread().unknown_lines;
  expect(Object.keys(all)).toHaveLength(51);
  expect(Object.values(all).reduce((sum, count) => sum + count, 0)).toBe(62 + 31);
});

test("so are they in the history of prompts and in rollouts of Codex", async () => {
  const index = await open();
  const prompt = (display: string) =>
    JSON.stringify({ display, timestamp: 1_780_000_000_000, project: "/p" });
  await append(
    index,
    newSource("history", "/h/history.jsonl"),
    `${prompt("wombat one").slice(0, -20)}${prompt("wombat two")}\n${nul}${prompt("wombat three")}\n[1]\n`,
  );
  const said = (text: string) =>
    JSON.stringify({
      timestamp: "2026-03-02T09:00:00Z",
      type: "response_item",
      payload: { type: "message", role: "user", content: [{ type: "input_text", text }] },
    });
  await append(
    index,
    newSource("codex", "/c/sessions/rollout-1.jsonl"),
    `${said("one").slice(0, 50)}${said("badger two")}${said("badger three")}\n`,
  );
  const history = index.history({
    query: "wombat",
    project: "",
    sessionId: "",
    limit: 10,
    offset: 0,
    since: null,
  });
  expect(history.items.map(({ display }) => display).toSorted()).toEqual(["wombat three", "wombat two"]);
  expect(index.session("rollout-1")).toMatchObject({ num_user_turns: 2, summary: "badger two" });
  expect(index.unread().damaged_lines).toBe(3);
});

test("a long line full of beginnings of records is given up in time", async () => {
  const index = await open();
  const begin = process.cpuUsage();
  const text = '{"type":"user","message":{"content":"'.repeat(30_000);
  await append(
    index,
    newSource("session", "/h/projects/p/s.jsonl"),
    `${text}\n${'{"a":['.repeat(200_000)}\n`,
  );
  const { user, system } = process.cpuUsage(begin);
  expect((user + system) / 1000).toBeLessThan(2000);
  expect(index.unread().damaged_lines).toBe(2);
});
