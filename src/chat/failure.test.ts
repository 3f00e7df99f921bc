import { expect, test } from "vitest";
import { outcome } from "./completions.fixture.ts";
import { turnFailure } from "./failure.ts";

test("a usage limit says when to try again, in words and in seconds", () => {
  const limitResetsAt = new Date(Date.now() + 90_000).toISOString();
  const error = `A usage limit is reached. Try again when it resets, at ${limitResetsAt}.`;
  const given = outcome({ ok: false, reason: "rate_limited", error, limitResetsAt });
  const failure = turnFailure(given, new AbortController().signal);
  expect(failure).toMatchObject({ code: "model_rate_limited", status: 429, message: error });
  expect(failure.retryAfter).toBeGreaterThan(85);
  expect(failure.retryAfter).toBeLessThanOrEqual(90);
  const timeless = turnFailure({ ...given, limitResetsAt: null }, new AbortController().signal);
  expect(timeless.retryAfter).toBeUndefined();
});
