import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { everythingVisible } from "../contract/visibility.ts";
import { createReaders, createTurn } from "./turn.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const cancel = { kind: "cancel", graceSeconds: 0 } as const;
const nobody = new AbortController().signal;
const abandonment = (policy: Parameters<typeof createReaders>[0]["policy"], leastGrace = 0) => {
  const onAbandoned = vi.fn<() => void>();
  return { onAbandoned, readers: createReaders({ policy, minGrace: leastGrace, onAbandoned }) };
};

test("a turn is abandoned when its last reader leaves, not before", () => {
  const { readers, onAbandoned } = abandonment(cancel);
  const leave = [readers.enter(nobody), readers.enter(nobody)];
  leave[0]?.();
  leave[0]?.();
  expect(onAbandoned).not.toHaveBeenCalled();
  leave[1]?.();
  expect(onAbandoned).toHaveBeenCalledOnce();
});

test("a reader whose signal aborts has left, also before it entered", () => {
  const { readers, onAbandoned } = abandonment(cancel);
  const controller = new AbortController();
  readers.enter(controller.signal);
  controller.abort();
  expect(onAbandoned).toHaveBeenCalledOnce();
  readers.enter(controller.signal);
  expect(onAbandoned).toHaveBeenCalledTimes(2);
});

test("within the grace another reader saves the turn", () => {
  const { readers, onAbandoned } = abandonment({ kind: "cancel", graceSeconds: 5 });
  readers.enter(nobody)();
  vi.advanceTimersByTime(4900);
  const leave = readers.enter(nobody);
  vi.advanceTimersByTime(10_000);
  expect(onAbandoned).not.toHaveBeenCalled();
  leave();
  vi.advanceTimersByTime(5000);
  expect(onAbandoned).toHaveBeenCalledOnce();
});

test("an answer that is not streamed waits a moment for a retry, whatever the policy", () => {
  const { readers, onAbandoned } = abandonment(cancel, 1);
  readers.enter(nobody)();
  expect(onAbandoned).not.toHaveBeenCalled();
  vi.advanceTimersByTime(1000);
  expect(onAbandoned).toHaveBeenCalledOnce();
});

test("detached turns are never abandoned, nor are those that have ended", () => {
  const detached = abandonment({ kind: "detach" });
  detached.readers.enter(nobody)();
  const over = abandonment(cancel);
  const leave = over.readers.enter(nobody);
  over.readers.close();
  leave();
  vi.advanceTimersByTime(100_000);
  expect(detached.onAbandoned).not.toHaveBeenCalled();
  expect(over.onAbandoned).not.toHaveBeenCalled();
});

test.each([true, false])("an answer of more than 64 MiB ends its turn, stream %s", (stream) => {
  const turn = createTurn({
    head: { id: "one", created: 0, model: "m" },
    stream,
    includeUsage: false,
    visibility: everythingVisible,
    status: "",
    liveText: true,
    policy: { kind: "detach" },
    conversation: { source: "new", id: null },
  });
  const text = "x".repeat(1_048_576);
  for (let block = 0; block < 60; block += 1) turn.take({ type: "text", block, text });
  expect(turn.signal.aborted).toBe(false);
  for (let block = 60; block < 70; block += 1) turn.take({ type: "text", block, text });
  expect(turn.signal.reason).toMatchObject({
    code: "agent_failed",
    message: expect.stringContaining("the answer has more than 67108864 characters; ask for less"),
  });
});
