import { describe, expect, test } from "vitest";
import { fromStart } from "../../test/ports/event-bus-suite.ts";
import { until } from "../../test/until.ts";
import { completionOperations } from "../contract/completion.ts";
import { ServiceError } from "../contract/errors.ts";
import { everythingVisible } from "../contract/visibility.ts";
import { context, openCompletions, openShared, outcome, untilStopped } from "./completions.fixture.ts";
import { statusText } from "./delta.ts";

const { output, http } = completionOperations.agent_completions;

describe("a completion that is waited for", () => {
  test("answers with the record and its fields beside it", async () => {
    const { submit, completions, fake } = await openCompletions();
    const answer = await submit({ meta: '{"a":1}' });
    const { usage } = outcome();
    const facts = {
      uuid: "one",
      status: "completed",
      result: "the answer",
      session_id: "session-1",
      cost_usd: 0.25,
      duration_ms: 1235,
      num_turns: 2,
      is_error: false,
      usage,
      error: null,
    };
    const completion = {
      ...facts,
      cost_estimated: false,
      created_at: "2026-01-01T00:00:00.000Z",
      started_at: "2026-01-01T00:00:00.000Z",
      ended_at: "2026-01-01T00:00:00.000Z",
      model: "claude-sonnet",
      error_code: null,
      meta: '{"a":1}',
    };
    expect(answer).toEqual({ success: true, ...facts, poll_url: null, code: null, completion });
    expect(output.strict().parse(answer)).toEqual(answer);
    expect(http.status?.(answer)).toBe(200);
    expect(await completions.get({ uuid: "one" }, context)).toEqual({ success: true, completion });
    expect(fake.taken).toBe(0);
  });

  test("that fails answers 500 with what went wrong, and what is known of the turn", async () => {
    const { submit, fake, told } = await openCompletions();
    const error = "The model does not answer; try again later";
    fake.play = async () => outcome({ ok: false, error, sessionId: null, costUsd: 0.5, costEstimated: true });
    const answer = await submit();
    expect(answer).toMatchObject({
      success: false,
      status: "failed",
      is_error: true,
      result: null,
      session_id: "session-1",
      error: "The model does not answer; try again later",
      code: "model_failed",
      cost_usd: 0.5,
      completion: {
        status: "failed",
        cost_estimated: true,
        error_code: "model_failed",
        ended_at: "2026-01-01T00:00:00.000Z",
      },
    });
    expect(http.status?.(output.strict().parse(answer))).toBe(500);
    expect(await told()).toEqual([
      ["error", "The model does not answer; try again later"],
      ["done", "failed"],
    ]);
    expect(fake.taken).toBe(0);
  });

  test("has its slash tokens removed and applied, as in chat; a /stream-status is answered before the answer", async () => {
    const { submit, fake, visibilities } = await openCompletions();
    const state = statusText({ ...everythingVisible, show_tools: false });
    expect(await submit({ message: "Say /hide-tools it /unknown" })).toMatchObject({ result: "the answer" });
    const told = await submit({ message: "/stream-status Say it" });
    expect(told).toMatchObject({ result: `${state}\n\nthe answer`, cost_usd: 0.25 });
    expect(fake.turns.map(({ opening }) => opening)).toEqual([
      [{ type: "text", text: "Say it /unknown" }],
      [{ type: "text", text: "Say it" }],
    ]);
    await expect(submit({ message: "/show-all x", model: "none" })).rejects.toThrow("does not exist");
    expect(await visibilities.get("hub")).toMatchObject({ show_tools: false });
  });

  test("of nothing but tokens is completed without an agent and a place; its result is the state", async () => {
    const { submit, completions, fake, told } = await openCompletions({ places: 0 });
    const result = statusText({ ...everythingVisible, show_final: false });
    const answer = await submit({ message: " /hide-final\n/stream-status" });
    expect(output.strict().parse(answer)).toMatchObject({ success: true, status: "completed", result });
    expect(http.status?.(output.parse(answer))).toBe(200);
    expect(await completions.get({ uuid: "one" }, context)).toMatchObject({
      completion: { status: "completed", result, cost_usd: null, is_error: false, duration_ms: 0 },
    });
    expect(await told()).toEqual([["done", "completed"]]);
    const queued = await submit({ message: "/stream-status", uuid: "two", wait: false });
    expect(queued).toMatchObject({ status: "queued", poll_url: "/completions/two" });
    expect(await completions.get({ uuid: "two" }, context)).toMatchObject({ completion: { result } });
    expect(fake.turns).toEqual([]);
  });

  test("that fails for an internal reason is explained in the log only", async () => {
    const { submit, fake, lines } = await openCompletions();
    fake.play = async () => Promise.reject(new TypeError("x is not a function"));
    const answer = await submit();
    expect(answer).toMatchObject({ success: false, code: "internal" });
    expect(JSON.stringify(answer)).not.toContain("not a function");
    expect(lines.join("")).toContain("not a function");
  });

  test("has an answer of at most 1 MiB, cut in front with a mark", async () => {
    const { submit, fake } = await openCompletions();
    fake.play = async () => outcome({ text: `${"ä".repeat(600_000)}the end` });
    const { result } = await submit();
    expect(Buffer.byteLength(result ?? "")).toBeLessThanOrEqual(1_048_576);
    expect(result).toMatch(/^\[… cut …\]\nä+the end$/);
  });
});

test("a completion that is not waited for is queued at once, and can be fetched when it is done", async () => {
  const { submit, completions, fake } = await openCompletions();
  const turn = Promise.withResolvers<ReturnType<typeof outcome>>();
  fake.play = () => turn.promise;
  const answer = await submit({ wait: false }, { signal: AbortSignal.abort() });
  expect(answer).toMatchObject({
    success: true,
    status: "queued",
    uuid: "one",
    poll_url: "/completions/one",
  });
  expect(output.strict().parse(answer)).toEqual(answer);
  expect(http.status?.(answer)).toBe(202);
  const get = async () => (await completions.get({ uuid: "one" }, context)).completion;
  await until(async () => (await get()).status === "running");
  turn.resolve(outcome());
  await until(async () => (await get()).status === "completed");
  expect(await get()).toMatchObject({ result: "the answer" });
});

describe("what the engine is asked", () => {
  test("is the message, with the agent's own settings unless the caller has others", async () => {
    const { submit, fake } = await openCompletions();
    await submit();
    const said = [{ type: "text", text: "Say it" }];
    expect(fake.turns[0]).toMatchObject({
      followUp: said,
      opening: said,
      appendSystemPrompt: "Be kind.",
      model: null,
      effort: null,
      maxTurns: null,
      timeoutSeconds: 77,
    });
    const asked = { model: "sonnet", effort: "high", max_turns: 3, timeout: 5, system_prompt: "Be short." };
    await submit(asked);
    expect(fake.turns[1]).toMatchObject({
      // In place of the package's text.
      appendSystemPrompt: "Be short.",
      model: "claude-sonnet",
      effort: "high",
      maxTurns: 3,
      timeoutSeconds: 5,
    });
  });

  test("is of one conversation for a caller's uuid, of another for each other, and of none when stateless", async () => {
    const { submit, fake } = await openCompletions();
    await submit();
    await submit();
    await submit({ uuid: "two" });
    await submit({}, { principal: "other" });
    await submit({ stateless: true });
    const [first, again, ...others] = fake.turns.map(({ conversation }) => conversation);
    expect(first).toMatch(/^[0-9a-f]{64}$/);
    expect(again).toBe(first);
    expect(others[2]).toBeNull();
    expect(new Set([first, ...others]).size).toBe(4);
  });
});

describe("what is refused leaves no record", () => {
  const records = async ({ completions }: Awaited<ReturnType<typeof openCompletions>>) =>
    await completions.list({ limit: 10, status: "all" }, context);

  test("a model that there is not", async () => {
    const opened = await openCompletions();
    await expect(opened.submit({ model: "gpt" })).rejects.toMatchObject({
      code: "model_not_found",
      message: 'The model "gpt" does not exist; use one of hub, sonnet',
    });
    expect(await records(opened)).toEqual({ success: true, count: 0, completions: [] });
    expect(opened.fake.taken).toBe(0);
  });

  test("one for which there is no place", async () => {
    const opened = await openCompletions({ places: 1 });
    opened.fake.play = untilStopped;
    await opened.submit({ wait: false });
    await expect(opened.submit({ uuid: "two" })).rejects.toMatchObject({ code: "capacity_full" });
    expect(await records(opened)).toMatchObject({ count: 1 });
    opened.fake.close();
    await opened.completions.stop();
  });

  test("one that the store does not take; its place is given back", async () => {
    const shared = await openShared();
    const refused = new ServiceError("store_unavailable", "away");
    const store = { ...shared.store, create: () => Promise.reject(refused) };
    const { submit, fake, completions } = await openCompletions({ shared: { ...shared, store } });
    for (let time = 0; time < 2; time += 1) await expect(submit()).rejects.toBe(refused);
    expect([fake.taken, fake.turns.length]).toEqual([0, 0]);
    await completions.stop();
  });
});

test("the same uuid is refused while it runs, on any instance, and is a new turn afterwards", async () => {
  const shared = await openShared();
  const a = await openCompletions({ shared });
  const b = await openCompletions({ shared, instance: { podName: "other", epoch: "e2" } });
  a.fake.play = untilStopped;
  await a.submit({ wait: false });
  for (const each of [a, b])
    await expect(each.submit()).rejects.toMatchObject({
      code: "completion_running",
      message: expect.stringContaining("one is queued or running"),
    });
  expect([a.fake.taken, b.fake.taken]).toEqual([1, 0]);
  await a.completions.cancel({ uuid: "one" }, context);
  expect(await b.submit()).toMatchObject({ success: true, result: "the answer" });
});

test("subscribers get what the agent does, in order, and its end", async () => {
  const { submit, fake, told, bus } = await openCompletions();
  const progress: string[] = [];
  fake.play = async (_turn, emit) => {
    emit(
      { type: "started", session_id: "s", model: null, agent_version: null },
      { type: "thinking", block: 0, text: "hm" },
      { type: "block_end", block: 0 },
      { type: "tool_use", id: "t1", name: "Read", input: { file: "a" }, parent: null },
      { type: "tool_result", tool_use_id: "t1", content: "x", is_error: false, parent: null },
      { type: "text", block: 1, text: "the " },
      { type: "text", block: 1, text: "answer" },
      { type: "warning", message: "w" },
    );
    return outcome();
  };
  await submit({}, { progress: (message) => void progress.push(message) });
  expect(await told()).toEqual([
    ["thinking", "hm"],
    ["tool_use", '{"id":"t1","name":"Read","input":{"file":"a"},"parent":null}'],
    ["tool_result", '{"tool_use_id":"t1","content":"x","is_error":false,"parent":null}'],
    ["assistant_text", "the answer"],
    ["done", "completed"],
  ]);
  for await (const { event } of bus.read("one", fromStart, context.signal))
    expect(event).toMatchObject({ correlation_id: "one", ts: "2026-01-01T00:00:00.000Z" });
  expect(progress).toEqual(["Uses Read"]);
});

test.each(["unknown", "..", "../../etc/passwd", "a/b", "", "x".repeat(201)])(
  "%j is not found",
  async (uuid) => {
    const { completions } = await openCompletions();
    const missing = { code: "completion_not_found" };
    await expect(completions.get({ uuid }, context)).rejects.toMatchObject(missing);
    await expect(completions.cancel({ uuid }, context)).rejects.toMatchObject(missing);
  },
);
