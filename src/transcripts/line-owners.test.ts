import { expect, test } from "vitest";
import type { Source } from "./corpus.ts";
import { all, open, session } from "./open-index.fixture.ts";
import { append, assistantLine, lines, newSource, question, userLine } from "./transcript-index.fixture.ts";

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
    const cost = { type: "cost-state", sessionId: "parent", totalCostUSD: 1 };
    const texts = {
      parent: [...first, cost, userLine("the parent goes on", { sessionId: "parent" })],
      fork: [...first.map(copied), cost, userLine("a badger of its own", { sessionId: "fork" })],
    };
    const created = { parent: 1000, fork: 2000 };
    const sources: Source[] = [];
    for (const name of order as ("parent" | "fork")[])
      sources.push(await append(index, session(name, { created: created[name] }), lines(...texts[name])));
    expect(index.session("parent")).toMatchObject({ ...whole, num_user_turns: 4, cost_usd: 1 });
    expect(index.session("fork")).toMatchObject({
      num_user_turns: 1,
      num_assistant_turns: 0,
      num_tool_calls: 0,
      total_tokens: 0,
      cost_usd: null,
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
      { type: "summary", summary: "Named", leafUuid: `later-${isFirst}`, sessionId: "third" },
    ];
    await append(index, session("third"), lines(userLine("Third")));
    if (isFirst) await append(index, session("old"), lines(...old));
    const next = await append(index, session("new"), lines(...foreign, userLine("Write the notes")));
    if (!isFirst) await append(index, session("old"), lines(...old));
    expect(index.session("old")).toMatchObject({ title: "The login", summary: "Login cookie fixed" });
    expect(index.session("new")).toMatchObject({ title: "", summary: "Write the notes", num_user_turns: 1 });
    expect(index.entries("new", all).items.map(({ content }) => content)).toEqual(["Write the notes"]);
    expect(index.search(question("cookie")).matches.map((each) => each.session_id)).toEqual(["old"]);
    await append(index, next, lines({ type: "ai-title", aiTitle: "The notes", sessionId: "new" }));
    expect(index.session("new")).toMatchObject({ title: "The notes" });
    expect(index.session("third")).toMatchObject({ summary: "Named" });
    const leaf = lines(userLine("Here", { uuid: `later-${isFirst}` }));
    const fourth = await append(index, session("fourth"), leaf);
    expect([index.session("third")?.summary, index.session("fourth")?.summary]).toEqual(["Third", "Named"]);
    await index.remove([fourth.id]);
    expect(index.session("third")).toMatchObject({ summary: "Named" });
    await index.remove([next.id]);
    expect(index.session("old")).toMatchObject({ title: "", summary: "Why does the login fail?" });
  }
});

test("a session's own summary of a line that nobody has is found in it", async () => {
  const index = await open();
  const summary = { type: "summary", summary: "About a wombat", leafUuid: "gone", sessionId: "s" };
  await append(index, session("s"), lines(userLine("Begin"), summary));
  expect(index.session("s")).toMatchObject({ summary: "About a wombat" });
  expect(index.search(question("wombat")).matches).toMatchObject([
    { session_id: "s", entry_type: "summary" },
  ]);
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

/** Files of a parent, its fork, a subagent, and a fork of the fork: the first lines are the same, at other times. */
const rollouts = () => {
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
  const copied = (second: number) => [
    meta(second, "p"),
    said(second, "user", "find the wombat"),
    said(second + 0.2, "user", "go on"),
    said(second + 0.4, "user", "go on"),
    said(second + 0.6, "assistant", "there"),
    tokens(second + 0.9, 1000),
  ];
  const spawned = { source: { subagent: { thread_spawn: { parent_thread_id: "p" } } } };
  const own = (second: number, pause: number) => [
    said(second, "user", "go on"),
    said(second + pause, "assistant", "yes"),
    tokens(second + 2 * pause, 1300),
  ];
  return {
    parent: copied(0),
    // A pause ends what is copied, or the line of the fork's own thread.
    fork: [meta(100, "f", { forked_from_id: "p" }), ...copied(100), ...own(130, 1)],
    agent: [meta(200, "a", spawned), ...copied(200), meta(201, "a", spawned), ...own(201, 0.1)],
    // Another rollout that says the same.
    other: [meta(300, "o"), said(301, "user", "find the wombat")],
    again: [
      meta(400, "g"),
      meta(400, "f"),
      ...copied(400),
      ...own(401, 0.1),
      said(430, "user", "now the badger"),
    ],
  };
};

test.each([
  ["fork", "parent", "agent", "other", "again"],
  ["again", "agent", "fork", "other", "parent"],
] as const)("forks and subagents of Codex count for themselves: %s first", async (...order) => {
  const index = await open();
  const stored: Record<string, Source> = {};
  for (const name of order) {
    const source = newSource("codex", `/c/sessions/rollout-${name}.jsonl`, {
      created: order.indexOf(name) + 1,
    });
    stored[name] = await append(index, source, lines(...rollouts()[name]));
  }
  const counts = (name: string) => {
    const { num_user_turns: turns, total_tokens: used, summary } = index.session(`rollout-${name}`) ?? {};
    const shown = index.entries(`rollout-${name}`, all).items;
    return [turns, used, summary, shown.filter(({ inherited }) => inherited).length, shown.length];
  };
  expect(order.toSorted().map((name) => [name, ...counts(name)])).toEqual([
    ["again", 1, 0, "now the badger", 6, 7],
    ["agent", 1, 300, "go on", 4, 6],
    ["fork", 1, 300, "go on", 4, 6],
    ["other", 1, 0, "find the wombat", 0, 1],
    ["parent", 3, 1000, "find the wombat", 0, 4],
  ]);
  const found = () =>
    index
      .search(question("wombat"))
      .matches.map(({ session_id }) => session_id)
      .toSorted();
  expect(found()).toEqual(["rollout-other", "rollout-parent"]);
  // What is copied counts in the oldest of them as long as the parent is not there.
  await index.remove([stored["parent"]?.id ?? ""]);
  const [oldest] = order;
  const own = { fork: [4, 1300, "find the wombat", 0, 6], again: [4, 1000, "find the wombat", 2, 7] };
  expect(counts(oldest)).toEqual(own[oldest]);
  expect(counts("agent")).toEqual([1, 300, "go on", 4, 6]);
  expect(found()).toEqual([`rollout-${oldest}`, "rollout-other"].toSorted());
  const parent = newSource("codex", "/c/sessions/rollout-parent.jsonl");
  await append(index, parent, lines(...rollouts().parent));
  expect(counts(oldest)[1]).toBe(oldest === "again" ? 0 : 300);
  expect(counts("parent")).toEqual([3, 1000, "find the wombat", 0, 4]);
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
      message("developer", "a quetzal"),
      message(
        "user",
        "<turn_aborted>a quetzal</turn_aborted>and\n<skill>\n<name>s</name>a quetzal</skill>\n<environment_context>a quetzal</environment_context>\nmore",
      ),
      { type: "response_item", payload: { type: "ghost_snapshot", ghost_commit: { id: "quetzal" } } },
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
  expect(index.search(question("quetzal")).total).toBe(0);
  const contents = index.entries("rollout-old", all).items.map(({ content }) => content);
  expect(contents).toEqual(["please wombat", "and\nmore", "", "did it"]);
  expect(index.unread().unknown_lines).toEqual({});
});
