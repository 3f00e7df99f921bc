import { expect, test } from "vitest";
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
  return { clock, retryable: createRetryable<ReturnType<typeof turnOf>>(() => clock.now) };
};

const turnOf = (name: string, size = 1) => ({ name, size: () => size });
const turn = turnOf("turn");

test("the same request that nobody calls a retry is a turn of its own", () => {
  const { retryable } = setUp();
  retryable.add(turn, request(), "key");
  expect(retryable.find(request(), "key")).toBeNull();
});

test("a retry of the client library finds its turn, under way or well ended", () => {
  const { retryable } = setUp();
  const ended = retryable.add(turn, request(), "key");
  expect(retryable.find(request({ isRetry: true }), "key")).toBe(turn);
  ended(true);
  expect(retryable.find(request({ isRetry: true }), "key")).toBe(turn);
});

test("the same X-Request-Id finds its turn, another one does not", () => {
  const { retryable } = setUp();
  retryable.add(turn, request({ requestId: "r1" }), "key");
  expect(retryable.find(request({ requestId: "r1" }), "key")).toBe(turn);
  expect(retryable.find(request({ requestId: "r2", isRetry: true }), "key")).toBeNull();
});

test("another body, key or user never finds it", () => {
  const { retryable } = setUp();
  retryable.add(turn, request({ requestId: "r1" }), "key");
  const again = { requestId: "r1", isRetry: true };
  expect(retryable.find(request({ ...again, digest: "e" }), "key")).toBeNull();
  expect(retryable.find(request({ ...again, user: "u" }), "key")).toBeNull();
  expect(retryable.find(request(again), "other key")).toBeNull();
});

test("a turn that failed is forgotten, one that went well after ten minutes", () => {
  const { retryable, clock } = setUp();
  retryable.add(turn, request({ requestId: "r1" }), "key")(false);
  expect(retryable.find(request({ requestId: "r1" }), "key")).toBeNull();
  retryable.add(turn, request({ requestId: "r2" }), "key")(true);
  clock.now = 600_000;
  expect(retryable.find(request({ requestId: "r2" }), "key")).toBe(turn);
  clock.now = 600_001;
  expect(retryable.find(request({ requestId: "r2" }), "key")).toBeNull();
});

test("of very many answers the oldest are forgotten, turns under way never", () => {
  const { retryable } = setUp();
  retryable.add(turn, request({ requestId: "r" }), "key");
  const names = Array.from({ length: 60 }, (_, index) => `r${index}`);
  for (const name of names) retryable.add(turnOf(name), request({ requestId: name }), "key")(true);
  expect(retryable.find(request({ requestId: "r" }), "key")).toBe(turn);
  const found = names.filter((name) => retryable.find(request({ requestId: name }), "key")?.name === name);
  expect(found).toEqual(names.slice(10));
});

test("large answers are not kept beyond what all may take together, the newest stay", () => {
  const { retryable } = setUp();
  for (const name of ["old", "large", "new"])
    retryable.add(
      turnOf(name, name === "large" ? 64 * 1024 * 1024 : 1),
      request({ requestId: name }),
      "key",
    )(true);
  expect(["old", "large"].map((requestId) => retryable.find(request({ requestId }), "key"))).toEqual([
    null,
    null,
  ]);
  expect(retryable.find(request({ requestId: "new" }), "key")).toMatchObject({ name: "new" });
});
