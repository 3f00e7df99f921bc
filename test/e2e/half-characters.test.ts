import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { assistantLine, lines, userLine } from "../../src/transcripts/transcript-index.fixture.ts";
import { bridge, serveBridge } from "../bridge/run-bridge.ts";
import { startService } from "../service.ts";
import { temporaryDirectory } from "../temporary.ts";

/* Half of an emoji, or NUL, in what agents wrote: strict readers of JSON refuse what has it, and a model's endpoint the whole session. */

const half = "\ud83d";
const broken = `hat ${half}\0…`;
/** Also where JSON stands in a text of JSON. */
const isWhole = (text: string): boolean => !/\\u(?:d[89a-f]|0000)/i.test(text) && text.isWellFormed();

test("transcripts leave as well-formed text by every tool and command", async () => {
  const home = await temporaryDirectory();
  const project = join(home, ".claude/projects/-w");
  await mkdir(join(project, "memory"), { recursive: true });
  await mkdir(join(home, ".claude/plans"));
  await writeFile(
    join(project, "s.jsonl"),
    lines(
      userLine(`kestrel ${broken}`, { gitBranch: broken, slug: "calm-fox" }),
      assistantLine([{ type: "tool_use", id: "t", name: "Bash", input: { command: `echo ${broken}` } }]),
      userLine([{ type: "tool_result", tool_use_id: "t", content: broken }]),
      assistantLine(broken),
    ),
  );
  await writeFile(join(project, "memory/MEMORY.md"), `memory \0 of it`);
  await writeFile(join(home, ".claude/plans/calm-fox.md"), `plan \0 of it`);
  const prompt = { display: broken, timestamp: 1_780_000_000_000, project: "/w", sessionId: "s" };
  await writeFile(join(home, ".claude/history.jsonl"), `${JSON.stringify(prompt)}\n`);
  for (const command of [
    ["sessions"],
    ["show", "s"],
    ["search", "kestrel"],
    ["plans", "calm-fox"],
    ["history"],
  ]) {
    const { stdout } = await bridge(home, [...command, "--json"]);
    expect([command, isWhole(stdout)]).toEqual([command, true]);
  }
  const { url } = await serveBridge(home);
  const session_id = "s";
  const calls: [name: string, input: object][] = [
    ["list_sessions", {}],
    ["get_session", { session_id }],
    ["get_session_segment", { session_id, details: true }],
    ["get_session_actions", { session_id, action_types: "tool_use,tool_result,command" }],
    ["search_sessions", { query: "kestrel", include_active: true }],
    ["search_semantic", { query: "kestrel", include_active: true }],
    ["restore_session", { session_id }],
    ["generate_summary", { session_id }],
    ["search_history", { query: "hat" }],
    ["get_memory_file", { project: "-w" }],
    ["get_plan", { codename: "calm-fox" }],
  ];
  for (const [name, input] of calls) {
    const response = await fetch(`${url}/mcp`, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "tools/call",
        params: { name, arguments: input },
      }),
    });
    const text = await response.text();
    expect([name, isWhole(text), text.includes('"success":true')]).toEqual([name, true, true]);
  }
});

test("what an agent says and does leaves as well-formed text in chat, jobs and their events", async () => {
  const { url } = await startService({ env: { AGENT_MODE: "true", AGENT_MODE_WARM_PROCESSES: "0" } });
  const steps = [
    { tool: { name: "Bash", input: { command: broken }, result: broken } },
    { text: `done ${half}` },
  ];
  const task = `scenario: chat ${JSON.stringify({ steps })}`;
  const post = async (path: string, body: object, headers: Record<string, string> = {}): Promise<string> => {
    const all = { "content-type": "application/json", ...headers };
    return (await fetch(url + path, { method: "POST", headers: all, body: JSON.stringify(body) })).text();
  };
  for (const stream of [true, false]) {
    const body = { model: "default", stream, messages: [{ role: "user", content: task }] };
    const text = await post("/v1/chat/completions", body, { "x-conversation-id": String(stream) });
    expect([stream, text.includes("done \uFFFD"), isWhole(text)]).toEqual([stream, true, true]);
  }
  const answer = await post("/jobs", { task: `${task} ${half}`, wait: true });
  const { job } = JSON.parse(answer) as { job: { id: string; output: string; task: string } };
  expect(job.output).toContain("done \uFFFD");
  expect(job.task.endsWith("\uFFFD")).toBe(true);
  const events = await (await fetch(`${url}/jobs/${job.id}/events`)).text();
  expect(events).toContain("hat \uFFFD\uFFFD…");
  // The end tells the task, which has the escapes as text.
  expect(isWhole(events.slice(0, events.lastIndexOf("event: end")))).toBe(true);
});
