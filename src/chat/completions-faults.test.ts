import { readdir } from "node:fs/promises";
import { expect, test } from "vitest";
import { sampleCompletion } from "../../test/ports/completion-store-suite.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import type { CompletionStore } from "../store/completion-store.ts";
import { context, openCompletions, openShared, outcome, untilStopped } from "./completions.fixture.ts";

const away = new ServiceError("store_unavailable", "The store is away; try again");

/** The store with another `update`. */
const openWith = async (update: (store: CompletionStore) => CompletionStore["update"]) => {
  const shared = await openShared();
  const opened = await openCompletions({
    shared: { ...shared, store: { ...shared.store, update: update(shared.store) } },
  });
  return { ...opened, under: shared.store };
};

test("an unreachable store costs no answer: the caller has it, and the store gets it later", async () => {
  let isAway = true;
  const { submit, under, lines, fake, told, completions } = await openWith(
    (store) =>
      (...change) =>
        isAway ? Promise.reject(away) : store.update(...change),
  );
  expect(await submit()).toMatchObject({ success: true, result: "the answer" });
  expect(await under.get("one")).toMatchObject({ status: "queued" });
  expect(lines.join("")).toContain("the end of a completion cannot be stored at present; it is kept on disk");
  expect([fake.taken, (await told()).at(-1)?.[0]]).toEqual([0, "done"]);
  await expect(completions.settle(() => true)).rejects.toBe(away);
  isAway = false;
  expect(await completions.settle(() => true)).toBe(0);
  expect(await under.get("one")).toMatchObject({ status: "completed", result: "the answer", cost_usd: 0.25 });
  fake.close();
  await completions.stop();
});

test("the next start writes a paid answer, also of a completion that another instance has called lost", async () => {
  const [shared, directory] = [await openShared(), await temporaryDirectory()];
  const update: CompletionStore["update"] = () => Promise.reject(away);
  const first = await openCompletions({
    directory,
    shared: { ...shared, store: { ...shared.store, update } },
  });
  await first.submit({ uuid: "one" });
  await first.submit({ uuid: "two" });
  const other = await openCompletions({ shared, instance: { podName: "other", epoch: "e9" } });
  const { store } = shared;
  await store.update("two", "e1", {
    status: "failed",
    error_code: "instance_lost",
    error: "lost",
    ended_at: "2026-01-01T00:00:00.000Z",
  });
  const next = await openCompletions({ directory, shared, instance: { podName: "pod", epoch: "e2" } });
  expect(await next.completions.settle(() => false)).toBe(0);
  for (const uuid of ["one", "two"])
    expect(await store.get(uuid)).toMatchObject({
      status: "completed",
      result: "the answer",
      error: null,
      error_code: null,
    });
  expect(await other.completions.settle(() => false)).toBe(0);
  expect(await readdir(directory)).toEqual([]);
});

test("a change whose answer was lost is not mistaken for another's", async () => {
  let isLost = true;
  const { submit, told } = await openWith((store) => async (...change) => {
    const answer = await store.update(...change);
    if (change[2].status !== "completed" || !isLost) return answer;
    isLost = false;
    throw away;
  });
  expect(await submit()).toMatchObject({ success: true, status: "completed" });
  expect(await told()).toEqual([["done", "completed"]]);
});

test("what earlier starts and dead instances have left is failed, and subscribers are notified", async () => {
  const { completions, store, submit, fake, told } = await openCompletions();
  fake.play = untilStopped;
  await submit({ wait: false });
  for (const [uuid, pod_name, epoch] of [
    ["earlier", "pod", "e0"],
    ["dead", "gone", "e7"],
    ["elsewhere", "other", "e8"],
    ["unknown-here", "pod", "e1"],
  ] as const) {
    await store.create(sampleCompletion({ uuid, pod_name, epoch, status: "running" }));
  }
  expect(await completions.settle(({ podName }) => podName === "other")).toBe(3);
  expect(await completions.settle(({ podName }) => podName === "other")).toBe(0);
  for (const uuid of ["earlier", "dead", "unknown-here"]) {
    expect(await store.get(uuid)).toMatchObject({
      status: "failed",
      is_error: true,
      error_code: "instance_lost",
      ended_at: "2026-01-01T00:00:00.000Z",
    });
    expect((await told(uuid)).map(([type]) => type)).toEqual(["error", "done"]);
  }
  expect(await store.get("elsewhere")).toMatchObject({ status: "running" });
  expect(await store.get("one")).toMatchObject({ status: "running" });
  fake.close();
  await completions.stop();
});

test("a service that stops ends what runs, says why, and takes no more", async () => {
  const { completions, submit, fake, store, told } = await openCompletions();
  fake.play = untilStopped;
  await submit({ uuid: "two", wait: false });
  const answer = submit();
  await until(() => fake.turns.length === 2);
  fake.close();
  await completions.stop();
  for (const uuid of ["one", "two"]) {
    expect(await store.get(uuid)).toMatchObject({
      status: "failed",
      error_code: "draining",
      error: expect.stringContaining("shutting down"),
    });
    expect((await told(uuid)).map(([type]) => type)).toEqual(["error", "done"]);
  }
  expect(await answer).toMatchObject({ success: false, code: "draining" });
  await expect(submit({ uuid: "three" })).rejects.toMatchObject({ code: "draining" });
  expect(await store.get("three")).toBeNull();
});

test("an answer that is there when the service stops is kept", async () => {
  const { completions, submit, fake, store } = await openCompletions();
  const turn = Promise.withResolvers<ReturnType<typeof outcome>>();
  fake.play = () => turn.promise;
  await submit({ wait: false });
  await until(() => fake.turns.length === 1);
  fake.close();
  const stopped = completions.stop();
  turn.resolve(outcome());
  await stopped;
  expect(await store.get("one")).toMatchObject({ status: "completed", result: "the answer" });
});

test("a caller whose progress cannot be reported loses nothing else", async () => {
  const { submit, fake, lines } = await openCompletions();
  fake.play = async (_turn, emit) => {
    emit({ type: "tool_use", id: "t", name: "Read", input: {}, parent: null });
    return outcome();
  };
  const progress = (): never => {
    throw new Error("the door is shut");
  };
  expect(await submit({}, { ...context, progress })).toMatchObject({ success: true });
  expect(lines.join("")).toContain("the door is shut");
});
