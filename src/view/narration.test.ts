import { describe, expect, test } from "vitest";
import { sampleBegin, sampleLog } from "../../test/cli/sample-job.ts";
import { unpainted } from "./paint.ts";
import { createNarration } from "./narration.ts";
import { plainLine, terminalLines } from "./rows.ts";

type Events = Parameters<typeof sampleLog>;

const rowsOf = (...events: Events) => {
  const narration = createNarration(sampleBegin);
  return [...sampleLog(...events).flatMap(narration.add), ...narration.rest()];
};
const told = (...events: Events): string[] => rowsOf(...events).map(({ kind, text }) => `${kind}: ${text}`);
const text = (piece: string, block = 0): Events[number] => ({ type: "text", block, text: piece });

describe("the account of a job", () => {
  test("joins pieces of text to lines and ends the last with its block", () => {
    expect(told(text("Fix"), text("ed it.\nAnd"), text(" more"), { type: "block_end", block: 0 })).toEqual([
      "text: Fixed it.",
      "text: And more",
    ]);
  });

  test("shows the line that is still being written, until its block ends", () => {
    const narration = createNarration(sampleBegin);
    const states = sampleLog(text("Half a li"), text("ne"), { type: "block_end", block: 0 }).map((event) => ({
      done: narration.add(event).map((row) => row.text),
      open: narration.openRow()?.text ?? null,
    }));
    expect(states).toEqual([
      { done: [], open: "Half a li" },
      { done: [], open: "Half a line" },
      { done: ["Half a line"], open: null },
    ]);
  });

  test("keeps single blank lines between text, none at the start", () => {
    expect(told(text("\n\na\n\n\n\nb"))).toEqual(["text: a", "text: ", "text: b"]);
  });

  test("keeps thinking and text apart, and blocks", () => {
    expect(told({ type: "thinking", block: 0, text: "hm" }, text("a", 1), text("b", 2))).toEqual([
      "thinking: hm",
      "text: a",
      "text: b",
    ]);
  });

  test("breaks a line without an end, so that it does not grow without bounds", () => {
    const narration = createNarration(sampleBegin);
    const rows = sampleLog(...Array.from({ length: 100 }, () => text("x".repeat(1000)))).flatMap(
      narration.add,
    );
    expect(narration.openRow()?.text.length).toBeLessThanOrEqual(4000);
    expect([...rows, ...narration.rest()].map((row) => row.text).join("")).toBe("x".repeat(100_000));
  });

  test("shows a tool call with its main argument, and one of a subagent as such", () => {
    const call = (name: string, input: unknown, parent: string | null = null): Events[number] => ({
      type: "tool_use",
      id: "1",
      name,
      input,
      parent,
    });
    expect(
      told(
        call("Bash", { description: "Run tests", command: "npm test\n&& echo ok" }),
        call("Read", { file_path: "/a/b.ts", limit: 3 }),
        call("Odd", { count: 3 }),
        call("Nothing", {}),
        call("Other", { x: "first text" }, "parent"),
      ),
    ).toEqual([
      "tool: Bash  npm test && echo ok",
      "tool: Read  /a/b.ts",
      "tool: Odd  count: 3",
      "tool: Nothing",
      "tool: ↳ Other  first text",
    ]);
  });

  test("reports a path within the worktree from there, and any other whole", () => {
    const read = (path: string): Events[number] => ({
      type: "tool_use",
      id: "1",
      name: "Read",
      input: { file_path: path },
      parent: null,
    });
    expect(
      told(
        read("/srv/worktrees/a/b.ts"),
        { type: "stage", stage: "worktree_ready", detail: "/srv/worktrees/a" },
        read("/srv/worktrees/a/b.ts"),
        read("/srv/worktrees/abc/b.ts"),
        read("/etc/hosts"),
      ).filter((row) => row.startsWith("tool")),
    ).toEqual([
      "tool: Read  /srv/worktrees/a/b.ts",
      "tool: Read  b.ts",
      "tool: Read  /srv/worktrees/abc/b.ts",
      "tool: Read  /etc/hosts",
    ]);
  });

  test("does not call a failed result a success, as the CLI does when its API refuses", () => {
    const failed = {
      type: "result",
      ok: false,
      text: "API Error: 401",
      subtype: "success",
      api_status: 401,
      session_id: null,
      num_turns: 1,
      cost_usd: 0,
      usage: null,
      duration_ms: 10,
    } as const satisfies Events[number];
    expect(told(failed, { ...failed, subtype: "error_max_turns" })).toEqual([
      "problem: the agent gave up  API Error: 401",
      "problem: the agent gave up (error_max_turns)  API Error: 401",
    ]);
  });

  test("tells each check and how it ended", () => {
    const who = { name: "tests", before: true };
    expect(
      told(
        { type: "check_start", ...who, run: "npm test", round: 0 },
        { type: "check_output", ...who, text: "1 failed\n" },
        { type: "check_end", ...who, status: "failed", exit_code: 1, duration_ms: 1500 },
        { type: "check_end", ...who, status: "passed", exit_code: 0, duration_ms: 1500 },
      ),
    ).toEqual([
      "stage: check tests before the change  npm test",
      "problem: check tests  failed, exit code 1, 1.5 s",
      "note: check tests  passed, 1.5 s",
    ]);
  });

  test("has each line of a setup, its commands as stages", () => {
    expect(told({ type: "setup", text: "$ npm ci\nadded 3\u001b[2J\n" }, text("Now"))).toEqual([
      "stage: $ npm ci",
      expect.not.stringContaining("\u001b"),
      "text: Now",
    ]);
  });

  test("reports what went wrong, and nothing of what went well", () => {
    expect(
      told(
        { type: "tool_result", tool_use_id: "1", content: "fine", is_error: false, parent: null },
        {
          type: "tool_result",
          tool_use_id: "1",
          content: "\nno such file\nat line 3",
          is_error: true,
          parent: null,
        },
        { type: "retry", retry: 2, max_retries: 3, delay_ms: 1500, status: 529, error: "overloaded" },
        { type: "rate_limit", status: "allowed", resets_at: null },
        {
          type: "usage",
          usage: {
            input_tokens: 1,
            output_tokens: 1,
            cache_creation_input_tokens: 0,
            cache_read_input_tokens: 0,
          },
        },
        { type: "rate_limit", status: "rejected", resets_at: "2026-05-01T13:00:00.000Z" },
        { type: "warning", message: "LFS pointers are not fetched" },
        { type: "exited", exit_code: 0, signal: null },
        { type: "exited", exit_code: 1, signal: null },
        { type: "exited", exit_code: null, signal: "SIGKILL" },
      ),
    ).toEqual([
      "problem: tool failed  no such file",
      "problem: the model answered 529: asked again in 1.5 s (2 of 3)  overloaded",
      "problem: rate limit  rejected, resets at 2026-05-01T13:00:00.000Z",
      "problem: LFS pointers are not fetched",
      "problem: the agent's process exited with 1",
      "note: the agent's process was ended by  SIGKILL",
    ]);
  });

  test("passes over events of a kind it does not know", () => {
    const [event] = sampleLog(text("x"));
    const later = { ...event, type: "hologram" } as unknown as NonNullable<typeof event>;
    expect(createNarration(sampleBegin).add(later)).toEqual([]);
  });

  test("carries nothing of a hostile agent to the terminal", () => {
    const hostile = "\u001b]0;owned\u0007\u001b[2J\u009b1m\u202Ex";
    const rows = rowsOf(
      text(hostile),
      ...Array.from("\u001b[2J", (piece) => text(piece)),
      { type: "thinking", block: 1, text: hostile },
      { type: "tool_use", id: "1", name: hostile, input: { command: hostile }, parent: null },
      { type: "tool_use", id: "1", name: "x", input: { [hostile]: 1 }, parent: null },
      { type: "tool_result", tool_use_id: "1", content: hostile, is_error: true, parent: null },
      { type: "retry", retry: 2, max_retries: 3, delay_ms: 1500, status: null, error: hostile },
      { type: "rate_limit", status: hostile, resets_at: hostile },
      { type: "started", session_id: hostile, model: hostile, agent_version: hostile },
      { type: "warning", message: hostile },
      { type: "exited", exit_code: null, signal: hostile },
      { type: "stage", stage: "pushed", detail: hostile },
    );
    const lines = rows.flatMap((row) => [
      plainLine(row, unpainted),
      ...terminalLines(row, { paint: unpainted, columns: 40 }),
    ]);
    expect(lines.length).toBeGreaterThan(20);
    for (const line of lines) expect(line).not.toMatch(/[\p{Cc}\p{Bidi_Control}]/v);
  });
});

describe("a line", () => {
  test("on a terminal is cut to its width, but text is wrapped", () => {
    const row = { elapsedMs: 61_000, text: "one two three four five six seven" };
    const options = { paint: unpainted, columns: 24 };
    expect(terminalLines({ ...row, kind: "tool" }, options)).toEqual(["● one two three four fi…"]);
    expect(terminalLines({ ...row, kind: "text" }, options)).toEqual([
      "one two three four five",
      "six seven",
    ]);
    expect(terminalLines({ ...row, kind: "thinking" }, options)).toEqual([
      "│ one two three four",
      "│ five six seven",
    ]);
    expect(terminalLines({ ...row, kind: "problem" }, options)).toEqual([
      "! one two three four",
      "  five six seven",
    ]);
    expect(terminalLines({ ...row, kind: "stage" }, options)).toEqual(["  1:01  one two three f…"]);
  });

  test("elsewhere has time, kind and text, uncut for text", () => {
    const row = { elapsedMs: 61_000, text: "x".repeat(300) };
    expect(plainLine({ ...row, kind: "text" }, unpainted)).toBe(`   1:01  text     ${"x".repeat(300)}`);
    expect(plainLine({ ...row, kind: "stage" }, unpainted)).toBe(`   1:01  stage    ${"x".repeat(199)}…`);
  });
});
