import { describe, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { context, openCompletions, openShared, outcome, untilStopped } from "./completions.fixture.ts";

describe("a caller who leaves while it waits", () => {
  const leave = async (policy: NonNullable<Parameters<typeof openCompletions>[0]>["policy"]) => {
    const opened = await openCompletions({ ...(policy && { policy }) });
    const turn = Promise.withResolvers<ReturnType<typeof outcome>>();
    const caller = new AbortController();
    opened.fake.play = (asked) => Promise.race([turn.promise, untilStopped(asked)]);
    const answer = opened.submit({}, { signal: caller.signal });
    await until(() => opened.fake.turns.length === 1);
    caller.abort();
    return { ...opened, turn, answer };
  };

  test("cancels it", async () => {
    const { answer, told, fake } = await leave({ kind: "cancel", graceSeconds: 0 });
    expect(await answer).toMatchObject({ success: false, status: "cancelled", code: "turn_cancelled" });
    expect((await told()).map(([type]) => type)).toEqual(["error", "done"]);
    expect(fake.taken).toBe(0);
  });

  test("cancels it after the grace, and not if it is done by then", async () => {
    const quick = await leave({ kind: "cancel", graceSeconds: 3600 });
    quick.turn.resolve(outcome());
    expect(await quick.answer).toMatchObject({ success: true });
    const slow = await leave({ kind: "cancel", graceSeconds: 0.02 });
    expect(await slow.answer).toMatchObject({
      status: "cancelled",
      error: expect.stringContaining("caller left"),
    });
  });

  test("does not touch it when it is detached", async () => {
    const { answer, turn, fake } = await leave({ kind: "detach" });
    expect(fake.turns[0]?.signal.aborted).toBe(false);
    turn.resolve(outcome());
    expect(await answer).toMatchObject({ success: true, status: "completed" });
  });
});

describe("cancelling", () => {
  test("stops the turn, and its place is free when the answer comes", async () => {
    const { submit, completions, fake, told } = await openCompletions();
    fake.play = untilStopped;
    await submit({ wait: false });
    const { completion } = await completions.cancel({ uuid: "one" }, context);
    expect(completion).toMatchObject({ status: "cancelled", is_error: true, error_code: "turn_cancelled" });
    expect(fake.taken).toBe(0);
    expect(await completions.get({ uuid: "one" }, context)).toMatchObject({ completion });
    expect(await completions.cancel({ uuid: "one" }, context)).toEqual({ success: true, completion });
    expect(await told()).toEqual([
      ["error", "The completion was cancelled"],
      ["done", "cancelled"],
    ]);
  });

  test("before it runs, by another instance, stops it before the agent has done anything", async () => {
    const shared = await openShared();
    const ended_at = "2026-01-01T00:00:00.500Z";
    const store = {
      ...shared.store,
      create: async (record: Parameters<typeof shared.store.create>[0]) => {
        const isCreated = await shared.store.create(record);
        await shared.store.update("one", "e1", { status: "cancelled", ended_at });
        return isCreated;
      },
    };
    const { submit, fake } = await openCompletions({ shared: { ...shared, store } });
    fake.play = untilStopped;
    expect(await submit()).toMatchObject({ status: "cancelled", completion: { ended_at } });
    expect(fake.taken).toBe(0);
  });

  test("counts as cancelled, whatever the engine says of it", async () => {
    const { submit, completions, fake } = await openCompletions();
    fake.play = async (turn) =>
      await untilStopped(turn).catch(() => Promise.reject(new Error("the pipe is broken")));
    await submit({ wait: false });
    expect(await completions.cancel({ uuid: "one" }, context)).toMatchObject({
      completion: { status: "cancelled", error: "The completion was cancelled" },
    });
  });

  test("of one that has ended well returns it as it is", async () => {
    const { submit, completions } = await openCompletions();
    await submit();
    expect(await completions.cancel({ uuid: "one" }, context)).toMatchObject({
      completion: { status: "completed", result: "the answer" },
    });
  });
});
