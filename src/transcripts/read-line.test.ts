import { expect, test } from "vitest";
import { all, call, open, result } from "./open-index.fixture.ts";
import { append, assistantLine, lines, newSource, question, userLine } from "./transcript-index.fixture.ts";

test("the title is the custom one, else the agent's, else the model's, else the summary", async () => {
  const index = await open();
  let source = newSource("session", "/h/projects/p/s.jsonl");
  for (const [line, title] of [
    [{ type: "summary", summary: "S" }, "S"],
    [{ type: "ai-title", aiTitle: "M" }, "M"],
    [{ type: "agent-name", agentName: "A" }, "A"],
    [{ type: "custom-title", customTitle: "C" }, "C"],
    [{ type: "ai-title", aiTitle: "M2" }, "C"],
  ] as const) {
    source = await append(index, source, lines(line));
    expect(index.session("s")?.title).toBe(title);
  }
});

test("what the CLI writes in a person's name is no prompt and no summary", async () => {
  const index = await open();
  await append(
    index,
    newSource("session", "/h/projects/p/s.jsonl"),
    lines(
      userLine("<local-command-caveat>Caveat: The messages below …</local-command-caveat>"),
      userLine("<command-name>/compact</command-name>"),
      userLine("injected", { isMeta: true }),
      userLine("This session continues another one", { isCompactSummary: true }),
      userLine([result("only a result")]),
      { type: "system", subtype: "local_command", content: "Compacted", timestamp: "2026-03-02T09:00:00Z" },
      userLine([result("a result"), { type: "text", text: "The real prompt" }]),
    ),
  );
  expect(index.session("s")).toMatchObject({ num_user_turns: 2, summary: "The real prompt" });
  expect(index.search(question("caveat OR injected")).total).toBe(0);
  expect(index.entries("s", all).items.map(({ entry_type, content }) => [entry_type, content])).toEqual([
    ["user", "/compact"],
    ["summary", "This session continues another one"],
    ["system", "Compacted"],
    ["user", "The real prompt"],
  ]);
});

test("an answer on several lines is one turn and is paid once, as its last line says", async () => {
  const index = await open();
  const usage = (output_tokens: number) => ({ input_tokens: 10, output_tokens });
  const part = (content: object, output: number) => ({
    ...assistantLine([]),
    message: { id: "msg_1", model: "claude-opus-4-8", content: [content], usage: usage(output) },
    costUSD: 0.5,
  });
  let source = newSource("session", "/h/projects/p/s.jsonl");
  for (const line of [part({ type: "thinking", thinking: "hm" }, 1), part({ type: "text", text: "yes" }, 5)])
    source = await append(index, source, lines(line));
  expect(index.session("s")).toMatchObject({ num_assistant_turns: 1, total_tokens: 15, cost_usd: 0.5 });
  const silent = (id: string, content: object[], rest: object = {}) =>
    lines({ ...assistantLine([], rest), message: { id, content, usage: usage(1) } });
  source = await append(index, source, silent("msg_2", [{ type: "thinking", thinking: "" }]));
  source = await append(index, source, silent("msg_3", [{ type: "redacted_thinking", data: "x" }]));
  await append(index, source, silent("msg_4", [], { isSidechain: true }));
  expect(index.session("s")).toMatchObject({ total_tokens: 48, cost_usd: 0.5 });
  expect(index.entries("s", all).total).toBe(1);
});

test("actions tell calls, changed files, commands, results and errors", async () => {
  const index = await open();
  await append(
    index,
    newSource("session", "/h/projects/p/s.jsonl"),
    lines(
      assistantLine([
        call("Write", { file_path: "/a.ts", content: "x" }),
        call("Bash", { command: "make" }, "t2"),
      ]),
      userLine([result("ok"), result([{ type: "text", text: "no rule" }], true, "t2")]),
      assistantLine("API Error", { isApiErrorMessage: true }),
    ),
  );
  const { calls, actions } = await index.actions("s", [
    "tool_use",
    "tool_result",
    "file_change",
    "command",
    "error",
  ]);
  expect([...calls]).toEqual([
    ["Write", 1],
    ["Bash", 1],
  ]);
  expect(actions.map(({ type, name, target, is_error }) => [type, name, target, is_error])).toEqual([
    ["tool_use", "Write", "/a.ts", false],
    ["file_change", "Write", "/a.ts", false],
    ["tool_use", "Bash", "make", true],
    ["command", "Bash", "make", true],
    ["tool_result", "Write", "ok", false],
    ["tool_result", "Bash", "no rule", true],
    ["error", "Bash", "no rule", true],
    ["error", "", "API Error", true],
  ]);
  expect((await index.actions("s", ["command"])).actions).toHaveLength(1);
});

test("broken JSON, unknown types, odd values and invalid UTF-8 do no harm", async () => {
  const index = await open();
  const bytes = Buffer.concat([
    Buffer.from(
      lines(
        "{broken",
        "12",
        "null",
        "[]",
        '"text"',
        { type: "future", x: 1 },
        { type: "user" },
        { type: "user", message: 1 },
        { type: "assistant", message: { content: [1, null, { type: "new", words: "platypus" }] } },
        {},
      ),
    ),
    Buffer.from('{"type":"user","timestamp":"never","message":{"role":"user","content":"caf'),
    Buffer.from([0xff, 0xfe]),
    Buffer.from('e latte"}}\n\n\r\n'),
  ]);
  await append(index, newSource("session", "/h/projects/p/s.jsonl"), bytes);
  expect(index.entries("s", all).items).toMatchObject([
    { content: "caf\uFFFD\uFFFDe latte", timestamp: null },
  ]);
  expect(index.search(question("latte")).total).toBe(1);
  expect(index.search(question("platypus")).total).toBe(1);
});

test("a line of 20 MB is read whole, without the images in it; what is no record is counted", async () => {
  const index = await open();
  const data = "iVBORw0KGgo".padEnd(5_000_000, "A");
  const image = { type: "image", source: { type: "base64", media_type: "image/png", data } };
  const source = await append(
    index,
    newSource("session", "/h/projects/p/s.jsonl"),
    lines(
      userLine([image, image, { type: "text", text: "what do these two say, aardvark?" }]),
      userLine([
        result([
          { type: "image", data, mimeType: "image/png" },
          { type: "text", text: "a zebra" },
        ]),
      ]),
      assistantLine(`two of ${"filler ".repeat(1_500_000)} quokkas`),
      userLine(`<html><img src="data:image/png;base64,${data.slice(0, 9000)}"> marmot`),
    ),
  );
  await append(index, source, Buffer.alloc(9_000_000, "x").fill("\n", 8_999_999));
  expect(index.session("s")).toMatchObject({
    num_user_turns: 2,
    summary: "[image]\n[image]\nwhat do these two say, aardvark?",
  });
  for (const word of ["aardvark", "zebra", "quokkas", "marmot"])
    expect([word, index.search(question(word)).total]).toEqual([word, 1]);
  expect(index.search(question("iVBORw0KGgoAAAA*")).total).toBe(0);
  expect(index.unread()).toEqual({ damaged_lines: 1, unknown_lines: {} });
});

test("Codex: what its events repeat counts once", async () => {
  const index = await open();
  const at = (type: string, payload: object) => ({ timestamp: "2026-03-02T09:00:00.000Z", type, payload });
  const message = (role: string, text: string) =>
    at("response_item", {
      type: "message",
      role,
      content: [{ type: role === "user" ? "input_text" : "output_text", text }],
    });
  await append(
    index,
    newSource("codex", "/c/sessions/2026/03/02/rollout-1.jsonl"),
    lines(
      at("session_meta", { id: "x", cwd: "/home/ana/codex", git: { branch: "dev" } }),
      at("turn_context", { cwd: "/home/ana/codex", model: "gpt-5-codex" }),
      message("user", "<environment_context>…</environment_context>"),
      message("user", "Fix it"),
      at("event_msg", { type: "user_message", message: "Fix it" }),
      at("response_item", {
        type: "function_call",
        name: "shell",
        arguments: '{"command":["bash","-lc","make wombat"]}',
        call_id: "c",
      }),
      at("response_item", {
        type: "function_call_output",
        call_id: "c",
        output: '{"output":"no rule","metadata":{"exit_code":2}}',
      }),
      at("response_item", {
        type: "custom_tool_call",
        name: "apply_patch",
        input: "*** Begin Patch\n*** Update File: src/a.rs\n*** End Patch",
        call_id: "d",
      }),
      at("event_msg", { type: "agent_message", message: "Done" }),
      message("assistant", "Done"),
      message("user", "Fix it"),
      at("event_msg", { type: "user_message", message: "Fix it" }),
      at("event_msg", { type: "token_count", info: { total_token_usage: { total_tokens: 1234 } } }),
    ),
  );
  expect(index.session("rollout-1")).toMatchObject({
    num_user_turns: 2,
    num_assistant_turns: 1,
    num_tool_calls: 2,
    summary: "Fix it",
    project_path: "/home/ana/codex",
    git_branch: "dev",
    model: "gpt-5-codex",
    total_tokens: 1234,
  });
  expect(index.search(question('"fix it"')).matches[0]?.num_hits).toBe(2);
  expect((await index.actions("rollout-1", ["command", "file_change", "error"])).actions).toMatchObject([
    { type: "command", target: "bash -lc make wombat", is_error: true },
    { type: "error", name: "shell", target: "no rule" },
    { type: "file_change", target: "src/a.rs" },
  ]);
});

test("what a person typed is judged block by block: editor, reminders and continuations are nobody's turn", async () => {
  const index = await open();
  const text = (words: string) => ({ type: "text", text: words });
  const command = (name: string, words: string) =>
    `<command-message>${name}</command-message>\n<command-name>/${name}</command-name>\n<command-args>${words}</command-args>`;
  const cases: [content: unknown, turn: string | null][] = [
    [[text("<ide_opened_file>The user opened a.md</ide_opened_file>"), text("Plan it")], "Plan it"],
    [
      "<ide_selection>lines 1 to 9:\nconst ibex = 1;</ide_selection>\nExplain <b>this</b>",
      "Explain <b>this</b>",
    ],
    [[text("<system-reminder>\nAs you answer, quetzal\n</system-reminder>"), text("Go on")], "Go on"],
    [
      "Fix it\n<system-reminder>quetzal</system-reminder>\n<system-reminder>quetzal</system-reminder>",
      "Fix it",
    ],
    ["What does <system-reminder> mean in a prompt?", "What does <system-reminder> mean in a prompt?"],
    ["One\n<system-reminder>a quetzal</system-reminder>\nand two", "One\nand two"],
    ["In <ide_selection>ibex</ide_selection> it <bash-stdout>a</bash-stdout>fails", "In it fails"],
    ["Go\nThis session is being continued from a previous conversation: ibex.\n\nSummary", "Go"],
    [[text("This session is being continued from a previous conversation: ibex."), text("Go")], "Go"],
    [`<system-reminder>quetzal</system-reminder>\n${command("plan", "it")}`, "/plan it"],
    [
      "<system-reminder>quetzal</system-reminder>This session is being continued from a previous conversation",
      null,
    ],
    [command("review", "the parser"), "/review the parser"],
    [command("clear", ""), "/clear"],
    ["This session is being continued from a previous conversation that ran out of context.", null],
    ["<system-reminder>only a quetzal</system-reminder>", null],
    [[text("<ide_diagnostics>1 error</ide_diagnostics>")], null],
    ["[Request interrupted by user]", null],
  ];
  for (const [at, [content, turn]] of cases.entries()) {
    await append(
      index,
      newSource("session", `/h/projects/p/s${at}.jsonl`),
      lines(userLine(content), assistantLine("Done.")),
    );
    expect([at, index.session(`s${at}`)]).toMatchObject([
      at,
      { num_user_turns: turn === null ? 0 : 1, summary: turn ?? "" },
    ]);
  }
  expect(index.search(question("quetzal")).total).toBe(0);
  expect(index.search(question("ibex")).total).toBe(4);
});

test("a session that begins with commands without words is named by the first prompt that has some", async () => {
  const index = await open();
  const command = (name: string) =>
    userLine(`<command-name>/${name}</command-name>\n<command-args></command-args>`);
  const source = newSource("session", "/h/projects/p/s.jsonl");
  const next = await append(index, source, lines(command("clear"), command("model")));
  expect(index.session("s")).toMatchObject({ summary: "/clear", num_user_turns: 2 });
  await append(index, next, lines(userLine("Write the notes"), userLine("And more")));
  expect(index.session("s")).toMatchObject({ summary: "Write the notes", num_user_turns: 4 });
});

test("words typed while the agent worked are turns in their place; notes that the CLI queues are none", async () => {
  const index = await open();
  const queued = (attachment: object, rest: object = {}) => ({
    ...userLine("x"),
    type: "attachment",
    attachment: { type: "queued_command", ...attachment },
    ...rest,
  });
  await append(
    index,
    newSource("session", "/h/projects/p/s.jsonl"),
    lines(
      userLine("Begin"),
      queued({ prompt: [{ type: "text", text: "the narwhal first" }], commandMode: "prompt" }),
      assistantLine("So be it"),
      queued({ prompt: "and keep the okapi" }),
      queued({ prompt: "a task has ended, quetzal", commandMode: "task-notification" }),
      queued({ prompt: "for the model, quetzal", isMeta: true }),
      queued({ prompt: "a subagent was told" }, { isSidechain: true }),
    ),
  );
  expect(index.session("s")).toMatchObject({ num_user_turns: 3 });
  expect(index.entries("s", all).items.map(({ entry_type, content }) => [entry_type, content])).toEqual([
    ["user", "Begin"],
    ["user", "the narwhal first"],
    ["assistant", "So be it"],
    ["user", "and keep the okapi"],
  ]);
  expect(index.search(question("quetzal")).total).toBe(0);
});

test("only what people, agent and tools wrote is read; kinds that are not known are counted; the cost is the CLI's", async () => {
  const index = await open();
  const attached = (attachment: object) => ({ ...userLine("x"), type: "attachment", attachment });
  const own = (type: string, rest: object) => ({ type, sessionId: "s", ...rest });
  await append(
    index,
    newSource("session", "/h/projects/p/s.jsonl"),
    lines(
      userLine("Begin"),
      own("api-request-shape", { shape: { system: [{ text: "ibis" }] } }),
      own("api-request-blob", { message: { role: "user", content: "ibis" } }),
      own("file-history-snapshot", { snapshot: { text: "ibis" } }),
      own("queue-operation", { operation: "enqueue", content: "ibis" }),
      attached({ type: "prompt_snapshot", systemPrompt: ["ibis"] }),
      attached({ type: "total_tokens_reminder", text: "ibis" }),
      attached({ type: "weather", text: "ibis" }),
      own("holograms", { text: "ibis" }),
      own("holograms", { text: "ibis" }),
      attached({ type: "file", filename: "/a.ts", content: { type: "text", file: { content: "a gecko" } } }),
      attached({ type: "hook_success", stdout: "a lemur" }),
      own("cost-state", { totalCostUSD: 0.5 }),
      assistantLine("Yes", { costUSD: 7 }),
      own("cost-state", { totalCostUSD: 0.75 }),
      own("cost-state", { totalCostUSD: 9, sessionId: "parent" }),
    ),
  );
  expect(index.search(question("ibis")).total).toBe(0);
  expect([index.search(question("gecko")).total, index.search(question("lemur")).total]).toEqual([1, 1]);
  expect(index.session("s")).toMatchObject({ cost_usd: 0.75, num_user_turns: 1, num_assistant_turns: 1 });
  expect(index.unread()).toEqual({
    damaged_lines: 0,
    unknown_lines: { holograms: 2, "attachment weather": 1 },
  });
});

test("what the CLI says in a person's name, or of itself, is nobody's turn and is not found", async () => {
  const index = await open();
  const refused = {
    ...userLine("Your response above was stopped by a quetzal."),
    isMeta: true,
    refusedMessageId: "msg_1",
  };
  const attached = (attachment: object) => ({ ...userLine("x"), type: "attachment", attachment });
  await append(
    index,
    newSource("session", "/h/projects/p/s.jsonl"),
    lines(
      userLine("Begin"),
      refused,
      userLine([{ type: "text", text: "Base directory for this skill: /s\n\nquetzal" }], { isMeta: true }),
      attached({ type: "prompt_snapshot", systemPrompt: ["ibis"] }),
      attached({ type: "environment", snapshot: { shell: "ibis" } }),
      attached({ type: "remote_session_change", commit: "ibis" }),
    ),
  );
  expect(index.session("s")).toMatchObject({ num_user_turns: 1 });
  expect(index.entries("s", all).total).toBe(1);
  expect(index.search(question("ibis OR quetzal")).matches).toEqual([]);
});
