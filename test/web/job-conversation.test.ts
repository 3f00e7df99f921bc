import { describe, expect, test } from "vitest";
import type { CheckEvent } from "../../src/contract/check.ts";
import type { AgentEvent, StageEvent } from "../../src/contract/event.ts";
import type { SetupEvent } from "../../src/contract/setup.ts";
import { createConversation, type JobEntry, type ToolEntry } from "../../web/src/job/events.ts";
import { sampleLog } from "../cli/sample-job.ts";

const conversationOf = (...events: (AgentEvent | StageEvent | SetupEvent | CheckEvent)[]) => {
  const conversation = createConversation();
  for (const event of sampleLog(...events)) conversation.add(event);
  return conversation;
};

const use = (id: string, name = "Bash", parent: string | null = null): AgentEvent => ({
  type: "tool_use",
  id,
  name,
  input: { command: id },
  parent,
});
const answer = (id: string, content = "ok", is_error = false): AgentEvent => ({
  type: "tool_result",
  tool_use_id: id,
  content,
  is_error,
  parent: null,
});
const tool = (entry: JobEntry | undefined): ToolEntry => {
  if (entry?.type !== "tool") throw new Error(`this is ${entry?.type}, not a tool call`);
  return entry;
};

describe("a conversation", () => {
  test("joins pieces of text and thinking by their block", () => {
    const { entries } = conversationOf(
      { type: "thinking", block: 1, text: "Let me " },
      { type: "thinking", block: 1, text: "see." },
      { type: "block_end", block: 1 },
      { type: "text", block: 2, text: "It is " },
      { type: "text", block: 2, text: "so." },
    );
    expect(entries).toMatchObject([
      { type: "thinking", seq: 1, text: "Let me see.", isLive: false },
      { type: "text", seq: 4, text: "It is so.", isLive: true },
    ]);
  });

  test("has the setup with its output, as a call that ends with its stage", () => {
    const said = (text: string) => ({ type: "setup", text }) as const;
    const ends = (detail: string | null) => ({ type: "stage", stage: "setup", detail }) as const;
    const good = tool(conversationOf(said("$ npm ci\n"), said("done\n"), ends(null)).entries[0]);
    expect(good).toMatchObject({ name: "Setup", isLive: false, resultSeq: 3 });
    expect(good.result).toEqual({ text: "$ npm ci\ndone\n", isError: false });
    const bad = tool(conversationOf(said("$ npm ci\n"), ends("The setup failed")).entries[0]);
    expect(bad.result).toEqual({ text: "$ npm ci\n", isError: true });
  });

  test("has each check with its output, as a call with its result", () => {
    const who = { name: "tests", before: false };
    const { entries } = conversationOf(
      { type: "check_start", ...who, run: "npm test", round: 0 },
      { type: "check_output", ...who, text: "1 passed\n" },
      { type: "check_output", ...who, text: "1 failed\n" },
      { type: "check_end", ...who, status: "failed", exit_code: 1, duration_ms: 5 },
      { type: "check_start", name: "tests", before: true, run: "npm test", round: 0 },
    );
    expect(entries).toMatchObject([
      { name: "Check tests", input: { command: "npm test" }, isLive: false, resultSeq: 4 },
      { name: "Check tests before the change", isLive: true, result: null },
    ]);
    expect(tool(entries[0]).result).toEqual({ text: "1 passed\n1 failed\n", isError: true });
  });

  test("puts results to their calls, in whatever order they come", () => {
    const { entries, facts, indexOf } = conversationOf(
      { type: "tool_start", id: "a", name: "Edit" },
      use("a", "Edit"),
      use("b", "Read"),
      answer("b", "text"),
      answer("a", "no", true),
    );
    expect(entries).toMatchObject([
      { name: "Edit", input: { command: "a" }, resultSeq: 5, result: { text: "no", isError: true } },
      { name: "Read", resultSeq: 4, result: { text: "text", isError: false } },
    ]);
    expect([1, 2, 3, 4, 5].map(indexOf)).toEqual([0, 0, 1, 1, 0]);
    // Reading changes no file.
    expect(facts.edits).toBe(1);
  });

  test("shows a subagent's calls under the call that started it", () => {
    const { entries, indexOf } = conversationOf(
      use("task", "Task"),
      use("x"),
      use("in", "Grep", "task"),
      answer("in"),
    );
    expect(entries).toHaveLength(2);
    expect(tool(entries[0]).calls).toMatchObject([{ name: "Grep", result: { isError: false } }]);
    expect([indexOf(3), indexOf(4)]).toEqual([0, 0]);
  });

  test("a hostile chain of subagents does not nest without end", () => {
    const { entries } = conversationOf(
      ...Array.from({ length: 1000 }, (_, n) => use(`${n}`, "Task", n === 0 ? null : `${n - 1}`)),
    );
    const depth = (entry: ToolEntry): number => 1 + Math.max(0, ...entry.calls.map(depth));
    expect(depth(tool(entries[0]))).toBe(3);
  });

  test("has the service's steps in one line until something else comes", () => {
    const stage = (name: StageEvent["stage"], detail: string | null = null): StageEvent => ({
      type: "stage",
      stage: name,
      detail,
    });
    const { entries, indexOf } = conversationOf(
      stage("queued"),
      stage("claimed", "pod"),
      { type: "text", block: 1, text: "Done" },
      stage("result", "success"),
      stage("ended", "succeeded"),
    );
    expect(entries).toMatchObject([
      { type: "stage", seq: 1, text: "queued · claimed  pod" },
      { type: "text" },
      { type: "stage", text: "ended  succeeded" },
    ]);
    expect([1, 2, 3, 5].map(indexOf)).toEqual([0, 0, 1, 2]);
  });

  test("marks a piece of text that the model began anew", () => {
    const { entries } = conversationOf(
      { type: "text", block: 1, text: "The ans" },
      { type: "warning", message: "It broke off.", dropped_block: 1 },
      { type: "text", block: 2, text: "The answer" },
    );
    expect(entries).toMatchObject([
      { type: "text", isDropped: true, isLive: false },
      { type: "problem", text: "It broke off." },
      { type: "text", isDropped: false },
    ]);
  });

  test("what the agent leaves open ends with it", () => {
    const { entries } = conversationOf(
      use("a"),
      { type: "text", block: 1, text: "…" },
      {
        type: "exited",
        exit_code: null,
        signal: "SIGKILL",
      },
    );
    expect(entries).toMatchObject([
      { result: null, isLive: false },
      { isLive: false },
      { type: "note", text: expect.stringContaining("SIGKILL") },
    ]);
  });

  test("collects model, session, stages, cost and tokens", () => {
    const usage = {
      input_tokens: 1,
      output_tokens: 2,
      cache_creation_input_tokens: 3,
      cache_read_input_tokens: 4,
    };
    const { facts } = conversationOf(
      { type: "stage", stage: "worktree_ready", detail: "/work" },
      { type: "started", session_id: "s", model: "m", agent_version: null },
      {
        type: "result",
        ok: true,
        text: "Done",
        subtype: "success",
        api_status: null,
        session_id: "s",
        num_turns: 3,
        cost_usd: 0.5,
        usage,
        duration_ms: 1,
      },
    );
    expect(facts).toMatchObject({ seq: 3, model: "m", worktree: "/work", costUsd: 0.5, usage });
  });

  test("tokens grow with each call of the model; results replace those of their calls; none is an entry", () => {
    const tokens = (count: number) => ({
      input_tokens: count,
      output_tokens: count,
      cache_creation_input_tokens: 0,
      cache_read_input_tokens: 0,
    });
    const call: AgentEvent = { type: "usage", usage: tokens(10) };
    const result: AgentEvent = {
      type: "result",
      ok: true,
      text: "",
      subtype: "success",
      api_status: null,
      session_id: null,
      num_turns: 1,
      cost_usd: null,
      usage: tokens(25),
      duration_ms: null,
    };
    const log = sampleLog(call, call, result, call, result, call);
    const conversation = createConversation();
    const grown = log.map((event) => {
      conversation.add(event);
      return conversation.facts.usage?.output_tokens;
    });
    expect(grown).toEqual([10, 20, 25, 35, 50, 60]);
    expect(conversation.entries.map(({ type }) => type)).toEqual(["result", "result"]);
    conversation.add({ ...call, seq: 7, at: log[0]?.at ?? "", attempt: 2 });
    expect(conversation.facts.usage).toEqual(tokens(10));
  });

  test("events of a later version and results without a call do no harm", () => {
    const { entries } = conversationOf({ type: "novelty" } as unknown as AgentEvent, answer("never"));
    expect(entries).toMatchObject([{ type: "tool", name: "", result: { isError: false } }]);
  });

  test("takes the last of 100,000 events as quickly as the first", () => {
    const log = sampleLog(
      ...Array.from({ length: 25_000 }, (_, n): AgentEvent[] => [
        use(`${n}`, "Bash", n % 2 === 0 ? null : "0"),
        answer(`${n}`),
        { type: "text", block: n, text: "a" },
        { type: "text", block: n, text: "b" },
      ]).flat(),
    );
    const conversation = createConversation();
    const take = (from: number, to: number): number => {
      const began = performance.now();
      for (const event of log.slice(from, to)) conversation.add(event);
      return performance.now() - began;
    };
    const first = take(0, 50_000);
    expect(take(50_000, 100_000)).toBeLessThan(5 * first + 100);
    expect(conversation.entries).toHaveLength(37_500);
  });
});
