import { expect, test } from "vitest";
import { token, startTools, talk } from "./handlers.fixture.ts";
import { append, assistantLine, lines, newSource, userLine } from "./transcript-index.fixture.ts";

const bash = (command: string) => ({ type: "tool_use", id: "t1", name: "Bash", input: { command } });
const tools = await startTools();
const { ask, session, index } = tools;
await session("s1", ...talk(2), assistantLine([bash(`export API_TOKEN=${token}`)], { slug: "calm-otter" }));
await session("s2", userLine(`the key is ${token}, keep it`), assistantLine("done"));
await append(index, newSource("plan", "/h/plans/calm-otter.md"), `# Plan\n${token}`);
await append(index, newSource("plan", "/h/plans/calm-otter-agent-ab12.md"), "# Part");
await append(index, newSource("memory", "/h/projects/-home-ana-app/memory/MEMORY.md"), "# Remember");
await append(
  index,
  newSource("history", "/h/history.jsonl"),
  lines({ display: `use ${token}`, timestamp: 1_772_442_000_000, project: "/home/ana/app", sessionId: "s1" }),
);

test("list_sessions lists, filters by age and pages", async () => {
  const all = await ask("list_sessions", {});
  expect(all).toMatchObject({ count: 2, total: 2, offset: 0 });
  expect(all.sessions[0]).toMatchObject({
    session_id: "s2",
    summary: "the key is ***, keep it",
    kind: "session",
  });
  expect(await ask("list_sessions", { limit: 1, offset: 1 })).toMatchObject({
    count: 1,
    total: 2,
    offset: 1,
  });
  expect(await ask("list_sessions", { project: "nowhere" })).toMatchObject({ count: 0, total: 0 });
  expect(await ask("list_sessions", { since_hours: 1 })).toMatchObject({ total: 0 });
  expect(await ask("list_sessions", { since_hours: 4 })).toMatchObject({ total: 2 });
});

test.each([1e308, 0.5, -1e308])("a session with %d tokens breaks no list", async (input_tokens) => {
  const { ask: askOdd, session: addOdd } = await startTools();
  const odd = { id: "m", usage: { input_tokens }, content: "x" };
  await addOdd("odd", { ...assistantLine("x"), message: odd }, assistantLine("y"));
  expect(await askOdd("list_sessions", {})).toMatchObject({ total: 1 });
});

test("get_session gives the last entries, with content as long as asked for", async () => {
  const { meta, entries, entry_count } = await ask("get_session", { session_id: "s1", last_n: 2 });
  expect(meta).toMatchObject({ session_id: "s1", codename: "calm-otter", num_tool_calls: 1 });
  expect(entry_count).toBe(2);
  expect(entries.map(({ content }) => content)).toEqual(["answer 1 text", ""]);
  expect(entries[1]).toMatchObject({ entry_type: "assistant", tool_names: ["Bash"] });
  const short = await ask("get_session", { session_id: "s1", last_n: 0, max_chars: 5, include_meta: false });
  expect(short.meta).toBeUndefined();
  expect(short.entries.map(({ content }) => content)).toEqual(["ques…", "answ…", "ques…", "answ…", ""]);
});

test("get_session_segment gives a part by position and by time, as instants", async () => {
  const { entries } = await ask("get_session_segment", { session_id: "s1", offset: 1, limit: 2 });
  expect(entries.map(({ content }) => content)).toEqual(["answer 0 text", "question 1 text"]);
  const at = Date.parse(entries[1]?.timestamp ?? "");
  const shifted = new Date(at + 3_600_000).toISOString().replace("Z", "+01:00");
  for (const since of [shifted, new Date(at).toISOString().replace("Z", "")])
    expect(await ask("get_session_segment", { session_id: "s1", since, limit: 1 })).toMatchObject({
      total_count: 3,
      count: 1,
      entries: [{ content: "question 1 text" }],
    });
  const day = { since: "2026-03-02", until: "2026-03-02" };
  expect(await ask("get_session_segment", { session_id: "s1", ...day })).toMatchObject({ total_count: 5 });
});

test("get_session_actions gives the types that are asked for, masked", async () => {
  const answer = await ask("get_session_actions", { session_id: "s1", action_types: "command, tool_use" });
  expect(answer).toMatchObject({ total_tool_calls: 1, unique_tools: 1, tools: [{ name: "Bash", count: 1 }] });
  expect(answer.actions.map(({ type }) => type).toSorted()).toEqual(["command", "tool_use"]);
  expect(JSON.stringify(answer)).not.toContain(token);
  await expect(ask("get_session_actions", { session_id: "s1", action_types: "files" })).rejects.toThrow(
    'action_types: "files" is not one; the types are tool_use',
  );
});

test("search_sessions shows the hit, but no part of a secret", async () => {
  expect(await ask("search_sessions", { query: "question", role: "user" })).toMatchObject({
    count: 1,
    total: 1,
    next_cursor: null,
    matches: [{ session_id: "s1", num_hits: 2, entry_type: "user" }],
  });
  const [match] = (await ask("search_sessions", { query: "keep" })).matches;
  expect(match?.content_preview).toBe("the key is ***, »keep« it");
});

test("search_semantic without a model searches for any of the words, and says so", async () => {
  const answer = await ask("search_semantic", { query: "Which QUESTION (came) second?" });
  expect(answer).toMatchObject({
    mode: "lexical",
    count: 1,
    matches: [{ session_id: "s1", project: "/home/ana/app" }],
  });
  const offset = answer.matches[0]?.chunk_idx ?? -1;
  const { entries } = await ask("get_session_segment", { session_id: "s1", offset, limit: 1 });
  expect(entries[0]?.content).toContain("question");
  await expect(ask("search_semantic", { query: "?!" })).rejects.toThrow("query: must have a word");
});

test("generate_summary without a model uses the session's own words", async () => {
  expect(await ask("generate_summary", { session_id: "s1" })).toMatchObject({
    model: null,
    summary: "question 0 text 2 user turns, 1 tool calls. Last answer: answer 1 text",
  });
});

test("restore_session gives a text and the command that resumes", async () => {
  const { context, char_count, resume_command } = await ask("restore_session", {
    session_id: "s1",
    last_n: 2,
  });
  expect(context).toContain("(3 earlier entries are left out)");
  expect(context).toContain("answer 1 text");
  expect(context).not.toContain("question 1");
  expect(char_count).toBe(context.length);
  expect(resume_command).toBe("cd /home/ana/app && claude --resume s1");
});

test("memory files, plans and prompts are found, masked", async () => {
  expect(await ask("get_memory_file", { project: "-home-ana-app" })).toMatchObject({ content: "# Remember" });
  expect(await ask("list_plans", { include_agent_plans: true, limit: 1 })).toMatchObject({
    count: 1,
    total: 2,
  });
  expect(await ask("get_plan", { codename: "calm-otter", include_agent_plans: true })).toMatchObject({
    content: "# Plan\n***",
    agent_plans: [{ codename: "calm-otter-agent-ab12", content: "# Part" }],
  });
  const { entries } = await ask("search_history", { query: "use", session_id: "s1" });
  expect(entries).toMatchObject([{ display: "use ***", session_id: "s1" }]);
  expect(await ask("search_history", { since: "2027-01-01" })).toMatchObject({ total: 0 });
});

const hostile = ["../../etc/passwd", "s1\0", "", "S1 OR 1=1", "x".repeat(1_000_000), "%2e%2e", "\ud800"];

test.each(hostile.map((id) => [id.slice(0, 20), id]))("an id like %j is not found", async (_, id) => {
  for (const name of [
    "get_session",
    "get_session_segment",
    "get_session_actions",
    "generate_summary",
    "restore_session",
  ] as const)
    await expect(ask(name, { session_id: id })).rejects.toMatchObject({ code: "session_not_found" });
  await expect(ask("get_plan", { codename: id })).rejects.toMatchObject({ code: "plan_not_found" });
  await expect(ask("get_memory_file", { project: id })).rejects.toMatchObject({ code: "memory_not_found" });
  await expect(ask("get_memory_file", { project: "-home-ana-app", filename: id })).rejects.toMatchObject({
    code: "memory_not_found",
  });
});

test("each answer leaves a line that says who read what, without content", async () => {
  tools.read.length = 0;
  await ask("get_session", { session_id: "s2" });
  await ask("search_sessions", { query: "keep it secret" });
  expect(tools.read).toEqual([
    { principal: "ana", tool: "get_session", session_id: "s2", count: 2 },
    { principal: "ana", tool: "search_sessions", count: 0 },
  ]);
});

test("without BRIDGE_REDACT everything is shown as it is", async () => {
  const open = await startTools({ redact: false });
  await open.session("s2", userLine(`the key is ${token}`));
  expect((await open.ask("get_session", { session_id: "s2" })).entries[0]?.content).toContain(token);
});

test("sessions, segments and actions always say whether they were cut", async () => {
  const { truncated: whole } = await ask("get_session", { session_id: "s1" });
  const { truncated: segment } = await ask("get_session_segment", { session_id: "s1" });
  const { truncated: actions } = await ask("get_session_actions", { session_id: "s1" });
  expect([whole, segment, actions]).toEqual([false, false, false]);
});

const bytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));
const limit = 75_000;

test("a long session is cut at the border of an entry, and the hint tells where to read on", async () => {
  const { ask: askLong, session: addLong } = await startTools();
  await addLong("long", ...talk(300, "ü".repeat(400)));
  const last = await askLong("get_session", { session_id: "long", last_n: 0 });
  expect(bytes(last)).toBeLessThan(limit);
  expect(last).toMatchObject({ truncated: true });
  expect(last.entries.at(-1)?.content).toMatch(/^answer 299/);
  expect(last.hint).toContain(`offset 0 to ${600 - last.entry_count - 1}`);
  const contents: string[] = [];
  for (let offset = 0; offset < 600;) {
    const part = await askLong("get_session_segment", { session_id: "long", offset, limit: 1000 });
    expect(bytes(part)).toBeLessThan(limit);
    contents.push(...part.entries.map(({ content }) => content));
    offset += part.count;
    expect(part.hint ?? "offset 600").toContain(`offset ${offset}`);
  }
  expect(contents).toHaveLength(600);
  const restored = await askLong("restore_session", { session_id: "long", last_n: 1000 });
  expect(bytes(restored)).toBeLessThan(limit);
  expect(restored).toMatchObject({ truncated: true, hint: expect.stringContaining("get_session_segment") });
});

test("an entry that is longer than an answer is cut inside, with a mark", async () => {
  const { ask: askLong, session: addLong } = await startTools();
  await addLong("huge", userLine('\u0001"\n'.repeat(200_000)));
  const { entries, ...rest } = await askLong("get_session", { session_id: "huge" });
  expect(entries[0]?.content).toMatch(/\n\[… cut: [\d,]+ characters more …\]$/);
  expect(bytes({ entries, ...rest })).toBeLessThan(limit);
  expect(rest.hint).toContain("longer than an answer");
  expect(bytes(await askLong("restore_session", { session_id: "huge" }))).toBeLessThan(limit);
});

test("a long document is read on where the hint says, until nothing is left out", async () => {
  const { ask: askLong, index: long } = await startTools();
  const text = `ü😀"\n${token} `.repeat(12_000);
  await append(long, newSource("plan", "/h/plans/huge.md"), text);
  await append(long, newSource("plan", "/h/plans/huge-agent-ab12.md"), "# Part");
  await append(long, newSource("memory", "/h/projects/-home-ana-app/memory/MEMORY.md"), text);
  const readers = [
    (offset: number) => askLong("get_plan", { codename: "huge", offset }),
    (offset: number) => askLong("get_memory_file", { project: "-home-ana-app", offset }),
  ];
  for (const read of readers) {
    const parts: string[] = [];
    for (let hint = "offset 0"; hint !== "";) {
      const part = await read(Number(/offset (\d+)$/.exec(hint)?.[1]));
      expect(bytes(part)).toBeLessThan(limit);
      expect(part).toMatchObject({ content_length: 9 * 12_000, ...(part.hint && { truncated: true }) });
      parts.push(part.content);
      hint = part.hint ?? "";
    }
    expect(parts.length).toBeGreaterThan(1);
    expect(parts.join("")).toBe(text.replaceAll(token, "***"));
    expect(await read(10 ** 9)).toMatchObject({ content: "" });
  }
  // The plans of subagents follow the end of the plan.
  const plan = (offset: number) =>
    askLong("get_plan", { codename: "huge", include_agent_plans: true, offset });
  expect([(await plan(0)).agent_plans.length, (await plan(10 ** 9)).agent_plans.length]).toEqual([0, 1]);
});

test("lists are bounded: 500 sessions, thousands of actions", async () => {
  const { ask: askMany, session: addMany } = await startTools();
  for (let number = 0; number < 120; number += 1)
    await addMany(`n${number}`, userLine("w ".repeat(400), { cwd: `/${"d".repeat(900)}` }));
  await addMany("busy", assistantLine(Array.from({ length: 2000 }, () => bash("echo ".repeat(40)))));
  const list = await askMany("list_sessions", { limit: 500 });
  expect(bytes(list)).toBeLessThan(limit);
  expect(list).toMatchObject({
    total: 121,
    truncated: true,
    hint: expect.stringContaining(`offset ${list.count}`),
  });
  const actions = await askMany("get_session_actions", { session_id: "busy" });
  expect(bytes(actions)).toBeLessThan(limit);
  const next = await askMany("get_session_actions", { session_id: "busy", offset: actions.actions.length });
  expect([actions.total_tool_calls, next.actions.length > 0, actions.truncated]).toEqual([2000, true, true]);
});

test("the caller's own session is left out of a search, unless it asks for it", async () => {
  const known = await startTools({ liveSession: { id: "mine" } });
  const unknown = await startTools({ liveSession: "unknown" });
  for (const each of [known, unknown]) {
    await each.session("mine", userLine("otter", { timestamp: "2026-03-02T11:59:30Z" }));
    await each.session("old", userLine("otter", { timestamp: "2026-03-02T11:00:00Z" }));
    for (const name of ["search_sessions", "search_semantic"] as const) {
      const found = async (include_active: boolean) =>
        (await each.ask(name, { query: "otter", include_active })).matches.map(
          ({ session_id }) => session_id,
        );
      expect(await found(false)).toEqual(["old"]);
      expect((await found(true)).toSorted()).toEqual(["mine", "old"]);
    }
  }
  unknown.clock.now += 60_000;
  expect((await unknown.ask("search_sessions", { query: "otter" })).count).toBe(2);
  expect((await known.ask("search_sessions", { query: "otter" })).count).toBe(1);
});
