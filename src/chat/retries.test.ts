import { expect, test, vi } from "vitest";
import { createRetryable } from "./retries.ts";

const request = (
  over: { digest?: string; user?: string | null; requestId?: string | null; isRetry?: boolean } = {},
) => ({
  digest: over.digest ?? "d",
  user: over.user ?? null,
  retry: { requestId: over.requestId ?? null, isRetry: over.isRetry ?? false },
});

const setUp = () => {
  const clock = { now: 0 };
  const onForgotten = vi.fn<(turn: string) => void>();
  return { clock, onForgotten, retryable: createRetryable<string>({ clock: () => clock.now, onForgotten }) };
};

test("the same request that nobody calls a retry is a turn of its own", () => {
  const { retryable } = setUp();
  retryable.add("turn", request(), "key");
  expect(retryable.find(request(), "key")).toBeNull();
});

test("a retry of the client library finds its turn, under way or well ended", () => {
  const { retryable } = setUp();
  const ended = retryable.add("turn", request(), "key");
  expect(retryable.find(request({ isRetry: true }), "key")).toBe("turn");
  ended(true, 1);
  expect(retryable.find(request({ isRetry: true }), "key")).toBe("turn");
});

test("the same X-Request-Id finds its turn, another one does not", () => {
  const { retryable } = setUp();
  retryable.add("turn", request({ requestId: "r1" }), "key");
  expect(retryable.find(request({ requestId: "r1" }), "key")).toBe("turn");
  expect(retryable.find(request({ requestId: "r2", isRetry: true }), "key")).toBeNull();
});

test("another body, key or user never finds it", () => {
  const { retryable } = setUp();
  retryable.add("turn", request({ requestId: "r1" }), "key");
  const again = { requestId: "r1", isRetry: true };
  expect(retryable.find(request({ ...again, digest: "e" }), "key")).toBeNull();
  expect(retryable.find(request({ ...again, user: "u" }), "key")).toBeNull();
  expect(retryable.find(request(again), "other key")).toBeNull();
});

test("a turn that failed is forgotten, one that went well after ten minutes", () => {
  const { retryable, clock, onForgotten } = setUp();
  retryable.add("failed", request({ requestId: "r1" }), "key")(false, 0);
  expect(retryable.find(request({ requestId: "r1" }), "key")).toBeNull();
  retryable.add("good", request({ requestId: "r2" }), "key")(true, 1);
  clock.now = 600_001;
  expect(retryable.find(request({ requestId: "r2" }), "key")).toBeNull();
  expect(onForgotten.mock.calls).toEqual([["failed"], ["good"]]);
});

test("of very many answers the oldest are forgotten, turns under way never", () => {
  const { retryable, onForgotten } = setUp();
  retryable.add("running", request({ requestId: "r" }), "key");
  for (let index = 0; index < 60; index += 1)
    retryable.add(`turn ${index}`, request({ requestId: `r${index}` }), "key")(true, 1);
  expect(onForgotten).toHaveBeenCalledTimes(10);
  expect(retryable.find(request({ requestId: "r" }), "key")).toBe("running");
  expect(retryable.find(request({ requestId: "r59" }), "key")).toBe("turn 59");
});

test("large answers are not kept beyond what all may take together, the newest stay", () => {
  const { retryable, onForgotten } = setUp();
  for (const name of ["old", "large", "new"])
    retryable.add(name, request({ requestId: name }), "key")(true, name === "large" ? 64 * 1024 * 1024 : 1);
  expect(onForgotten.mock.calls).toEqual([["old"], ["large"]]);
  expect(retryable.find(request({ requestId: "new" }), "key")).toBe("new");
});
