import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import type { Source } from "./corpus.ts";
import { openTranscriptIndex } from "./transcript-index.ts";
import {
  append,
  assistantLine,
  lines,
  newSource,
  question,
  quiet,
  userLine,
} from "./transcript-index.fixture.ts";

const open = async () => {
  const index = openTranscriptIndex({ path: join(await temporaryDirectory(), "t.db"), log: quiet });
  onTestFinished(() => index.close());
  return index;
};

const all = { offset: 0, limit: 1000, since: null, until: null };
const session = (name: string, rest: Partial<Source> = {}) =>
  newSource("session", `/h/projects/p/${name}.jsonl`, rest);

/** Three questions with answers, a tool call each. */
const talk = () =>
  [0, 1, 2].flatMap((n) => [
    userLine(`question ${n} wombat`),
    assistantLine([
      { type: "text", text: `answer ${n}` },
      { type: "tool_use", id: `t${n}`, name: "Bash", input: { command: "make" } },
    ]),
  ]);

const whole = { num_user_turns: 3, num_assistant_turns: 3, num_tool_calls: 3, total_tokens: 30 };

test("a line that is written again in its session counts once, whatever else it says by then", async () => {
  const index = await open();
  const first = talk();
  const source = await append(index, session("s"), lines(...first));
  const later = { cwd: "/elsewhere", timestamp: "2026-03-09T09:00:00Z" };
  await append(index, source, lines(...first.map((line) => ({ ...line, ...later })), ...first));
  // A subagent may begin with what its parent said.
  const agent = newSource("subagent", "/h/projects/p/s/subagents/agent-1.jsonl", { session_id: "s" });
  await append(index, agent, lines(...first, userLine("its own wombat", { isSidechain: true })));
  expect(index.session("s")).toMatchObject(whole);
  expect(index.entries("s", all).total).toBe(6);
  expect(index.search(question("wombat")).matches).toMatchObject([{ session_id: "s", num_hits: 4 }]);
  expect((await index.actions("s", ["command"])).actions).toHaveLength(3);
});

test("an answer is paid once, as its last line says, however many answers lie between", async () => {
  const index = await open();
  const part = (id: string, output_tokens: number) => ({
    ...assistantLine("part"),
    message: { id, content: [{ type: "text", text: "part" }], usage: { input_tokens: 100, output_tokens } },
  });
  const between = Array.from({ length: 40 }, (_, n) => part(`other-${n}`, 1));
  await append(index, session("s"), lines(part("one", 9), ...between, part("one", 159)));
  expect(index.session("s")).toMatchObject({ total_tokens: 259 + 40 * 101, num_assistant_turns: 41 });
});

type Line = ReturnType<typeof talk>[number];

/** How lines of the session "parent" look in the file of its fork. */
const forks: Record<string, (line: Line) => object> = {
  "with the mark of a fork": (line) => ({
    ...line,
    sessionId: "fork",
    uuid: `new-${line.uuid}`,
    timestamp: "2026-04-01T00:00:00Z",
    forkedFrom: { sessionId: "parent", messageUuid: line.uuid },
  }),
  "with the parent's session": (line) => line,
  "with the fork's session": (line) => ({ ...line, sessionId: "fork" }),
};

for (const [how, copied] of Object.entries(forks))
  test.each([
    ["parent", "fork"],
    ["fork", "parent"],
  ])(`what a fork has from its parent (${how}) counts in the parent: %s first`, async (...order) => {
    const index = await open();
    const first = talk().map((line) => ({ ...line, sessionId: "parent" }));
    const texts = {
      parent: [...first, userLine("the parent goes on", { sessionId: "parent" })],
      fork: [...first.map(copied), userLine("a badger of its own", { sessionId: "fork" })],
    };
    const created = { parent: 1000, fork: 2000 };
    const sources: Source[] = [];
    for (const name of order as ("parent" | "fork")[])
      sources.push(await append(index, session(name, { created: created[name] }), lines(...texts[name])));
    expect(index.session("parent")).toMatchObject({ ...whole, num_user_turns: 4 });
    expect(index.session("fork")).toMatchObject({
      num_user_turns: 1,
      num_assistant_turns: 0,
      num_tool_calls: 0,
      total_tokens: 0,
      summary: "a badger of its own",
    });
    const shown = index.entries("fork", all).items;
    expect(shown.map(({ inherited }) => inherited)).toEqual([true, true, true, true, true, true, undefined]);
    expect(shown[0]?.content).toBe("question 0 wombat");
    expect(index.entries("parent", all).items.some(({ inherited }) => inherited)).toBe(false);
    expect(index.search(question("wombat")).matches).toMatchObject([{ session_id: "parent", num_hits: 3 }]);
    expect((await index.actions("fork", ["tool_use"])).actions).toEqual([]);
    // Retention forgets the parent: nothing that the fork has is lost.
    await index.remove(sources.filter(({ name }) => name === "parent").map(({ id }) => id));
    expect(index.session("fork")).toMatchObject({
      ...whole,
      num_user_turns: 4,
      summary: "question 0 wombat",
    });
    expect(index.search(question("wombat")).matches).toMatchObject([{ session_id: "fork", num_hits: 3 }]);
    expect(index.entries("fork", all).items.some(({ inherited }) => inherited)).toBe(false);
  });

test("a parent that is read anew stays the one in which its lines count", async () => {
  const index = await open();
  const first = talk();
  const parent = await append(index, session("parent", { created: 1 }), lines(...first));
  await append(index, session("fork", { created: 2 }), lines(...first, userLine("own")));
  await append(index, { ...parent, generation: 1, collected: 0 }, lines(...first.slice(0, 2)));
  expect(index.session("parent")).toMatchObject({ num_user_turns: 1, total_tokens: 10 });
  expect(index.session("fork")).toMatchObject({ num_user_turns: 3, total_tokens: 20 });
  expect(index.search(question("wombat")).matches.map((each) => [each.session_id, each.num_hits])).toEqual(
    expect.arrayContaining([
      ["parent", 1],
      ["fork", 2],
    ]),
  );
});

test("lines of two sessions with one id at different times are two", async () => {
  const index = await open();
  for (const [name, hour] of [
    ["a", 1],
    ["b", 2],
  ] as const)
    await append(
      index,
      session(name),
      lines(userLine("wombat", { uuid: "1", timestamp: `2026-03-02T0${hour}:00:00Z` })),
    );
  expect(index.search(question("wombat")).total).toBe(2);
});

test("a summary belongs to the session that has its leaf, a title to the one it names, in any order", async () => {
  for (const isFirst of [true, false]) {
    const index = await open();
    const old = [userLine("Why does the login fail?"), assistantLine("A cookie was missing.")];
    const foreign = [
      { type: "summary", summary: "Login cookie fixed", leafUuid: old[1]?.uuid },
      { type: "summary", summary: "Of a talk that is gone", leafUuid: "unknown" },
      { type: "ai-title", aiTitle: "The login", sessionId: "old" },
      { type: "custom-title", customTitle: "Of nobody", sessionId: "gone" },
    ];
    if (isFirst) await append(index, session("old"), lines(...old));
    const next = await append(index, session("new"), lines(...foreign, userLine("Write the notes")));
    if (!isFirst) await append(index, session("old"), lines(...old));
    expect(index.session("old")).toMatchObject({ title: "The login", summary: "Login cookie fixed" });
    expect(index.session("new")).toMatchObject({ title: "", summary: "Write the notes", num_user_turns: 1 });
    expect(index.entries("new", all).items.map(({ content }) => content)).toEqual(["Write the notes"]);
    expect(index.search(question("cookie")).matches.map((each) => each.session_id)).toEqual(["old"]);
    await append(index, next, lines({ type: "ai-title", aiTitle: "The notes", sessionId: "new" }));
    expect(index.session("new")).toMatchObject({ title: "The notes" });
    await index.remove([next.id]);
    expect(index.session("old")).toMatchObject({ title: "", summary: "Why does the login fail?" });
  }
});

test("listed is what has a turn", async () => {
  const index = await open();
  const snapshot = { type: "file-history-snapshot", messageId: "1", snapshot: {} };
  const status = {
    type: "system",
    subtype: "bridge_status",
    content: "active",
    timestamp: "2026-03-02T09:00:00Z",
  };
  for (const [name, records] of Object.entries({
    snapshots: [snapshot, snapshot],
    status: [status, snapshot],
    foreign: [{ type: "summary", summary: "Of another", leafUuid: "x" }],
    warmup: [userLine("Warmup", { isSidechain: true })],
    real: [userLine("A question")],
    answered: [assistantLine("Only an answer is left")],
  }))
    await append(index, session(name), lines(...records));
  const { total, items } = index.listSessions({ project: "", limit: 10, offset: 0, updatedSince: 0 });
  expect([total, items.map(({ session_id }) => session_id).toSorted()]).toEqual([2, ["answered", "real"]]);
});

test("forks and subagents of Codex count for themselves", async () => {
  const index = await open();
  const rollout = (name: string) => newSource("codex", `/c/sessions/${name}.jsonl`);
  const at = (second: number, type: string, payload: object) => ({
    timestamp: new Date(Date.parse("2026-03-02T09:00:00Z") + second * 1000).toISOString(),
    type,
    payload,
  });
  const said = (second: number, role: string, text: string) =>
    at(second, "response_item", { type: "message", role, content: [{ type: "input_text", text }] });
  const tokens = (second: number, total_tokens: number) =>
    at(second, "event_msg", { type: "token_count", info: { total_token_usage: { total_tokens } } });
  const meta = (second: number, id: string, rest: object = {}) => at(second, "session_meta", { id, ...rest });
  await append(
    index,
    rollout("rollout-parent"),
    lines(meta(0, "p"), said(1, "user", "find the wombat"), said(2, "assistant", "there"), tokens(3, 1000)),
  );
  const copied = [
    meta(100, "p"),
    said(100, "user", "find the wombat"),
    said(100.4, "assistant", "there"),
    tokens(100.9, 1000),
  ];
  const own = [said(130, "user", "now the badger"), said(131, "assistant", "yes"), tokens(132, 1300)];
  // A pause ends what is copied, or the line of the fork's own thread.
  await append(
    index,
    rollout("rollout-fork"),
    lines(meta(100, "f", { forked_from_id: "p" }), ...copied, ...own),
  );
  const spawned = { source: { subagent: { thread_spawn: { parent_thread_id: "p" } } } };
  const fast = [said(101, "user", "now the badger"), said(101.1, "assistant", "yes"), tokens(101.2, 1300)];
  await append(
    index,
    rollout("rollout-agent"),
    lines(meta(100, "a", spawned), ...copied, meta(101, "a", spawned), ...fast),
  );
  expect(index.session("rollout-parent")).toMatchObject({ num_user_turns: 1, total_tokens: 1000 });
  for (const name of ["rollout-fork", "rollout-agent"]) {
    expect(index.session(name)).toMatchObject({
      num_user_turns: 1,
      total_tokens: 300,
      summary: "now the badger",
    });
    expect(index.entries(name, all).items.map(({ inherited }) => inherited)).toEqual([
      true,
      true,
      undefined,
      undefined,
    ]);
  }
  expect(index.search(question("wombat")).matches).toMatchObject([
    { session_id: "rollout-parent", num_hits: 1 },
  ]);
});

test("Codex: rollouts without an envelope, editor's context, and blocks of the CLI's own", async () => {
  const index = await open();
  const message = (role: string, ...texts: string[]) => ({
    type: "message",
    role,
    content: texts.map((text) => ({ type: role === "user" ? "input_text" : "output_text", text })),
  });
  await append(
    index,
    newSource("codex", "/c/sessions/rollout-old.jsonl"),
    lines(
      { id: "x", timestamp: "2025-08-01T10:00:00Z", instructions: null, git: { branch: "main" } },
      { record_type: "state" },
      message("user", "<environment_context>\nCurrent working directory: /w/app\n</environment_context>"),
      message(
        "user",
        "# AGENTS.md instructions for /w/app\n\n<INSTRUCTIONS>\na quetzal\n</INSTRUCTIONS>",
        "# AGENTS.md instructions for /w/app\n\na quetzal",
        "# Context from my IDE setup:\n\n## Open tabs:\n- a.ts\n\n## My request for Codex:\nplease wombat",
      ),
      { type: "function_call", name: "shell", arguments: '{"command":["ls"]}', call_id: "c" },
      { type: "function_call_output", call_id: "c", output: "a badger" },
      message("assistant", "did it"),
    ),
  );
  expect(index.session("rollout-old")).toMatchObject({
    num_user_turns: 2,
    num_assistant_turns: 1,
    num_tool_calls: 1,
    summary: "please wombat",
    git_branch: "main",
    project_path: "/w/app",
    start_time: "2025-08-01T10:00:00.000Z",
  });
  expect(index.search(question("badger")).total).toBe(1);
  expect(index.unread().unknown_lines).toEqual({});
});
      message("developer", "a quetzal"),
      message(
        "user",
        "<turn_aborted>a quetzal</turn_aborted>and\n<skill>\n<name>s</name>a quetzal</skill>\n<environment_context>a quetzal</environment_context>\nmore",
      ),
      { type: "response_item", payload: { type: "ghost_snapshot", ghost_commit: { id: "quetzal" } } },
  expect(index.search(question("quetzal")).total).toBe(0);
  const contents = index.entries("rollout-old", all).items.map(({ content }) => content);
  expect(contents).toEqual(["please wombat", "and\nmore", "", "did it"]);
