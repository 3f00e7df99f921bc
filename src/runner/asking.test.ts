import { describe, expect, test } from "vitest";
import type { Reply } from "../agents/agent.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { afterAsking, answerAsk, leftOf, type Asking } from "./asking.ts";

const answer = { kind: "answers", answers: { "Which database?": "SQLite" } } as const;

test("the answer to one question is none to the next: a run that is stopped while it asks again is parked", async () => {
  const asking: Asking = { waiting: null, answer: null };
  const replies: Reply[] = [];
  const held = Promise.withResolvers<null>();
  const given: Promise<typeof answer | null>[] = [Promise.resolve(answer), held.promise];
  const run = { ask: async () => (await given.shift()) ?? null, note: () => undefined };
  const job = {
    record: sampleRecord(),
    run,
    questions: "ask" as const,
    questionTtl: 60,
    now: () => new Date(),
  };
  const ask = (id: string) =>
    answerAsk(
      job,
      { id, kind: "question", questions: [], plan: null, reply: (reply) => replies.push(reply) },
      asking,
    );
  await ask("first");
  expect(replies).toEqual([answer]);
  const second = ask("second");
  const stopped = AbortSignal.abort("shutdown");
  expect(afterAsking({ asking, deferred: false, questions: "ask", stopped })).toBe("park");
  expect(afterAsking({ asking, deferred: false, questions: "fail", stopped })).toBe("fail");
  expect(
    afterAsking({ asking, deferred: false, questions: "ask", stopped: AbortSignal.abort("cancel") }),
  ).toBe("go_on");
  held.resolve(null);
  await second;
  expect(replies).toEqual([answer, { kind: "defer" }]);
});

describe("what a job may still use", () => {
  const limits = { timeout_seconds: 100, max_turns: 10, max_budget_usd: 1 };

  test("is what its earlier processes have left, whenever they worked", () => {
    const record = sampleRecord({ started_at: "2026-01-01T00:00:00Z", num_turns: 7, cost_usd: 0.4 });
    expect(leftOf(record, limits, 30_400)).toEqual({
      timeout_seconds: 70,
      max_turns: 3,
      max_budget_usd: 0.6,
    });
  });

  test("is a little where nothing is left, and no limit where there is none", () => {
    const record = sampleRecord({ num_turns: 12, cost_usd: 0.4 });
    const none = { timeout_seconds: 100, max_turns: 10, max_budget_usd: null };
    expect(leftOf(record, none, 110_000)).toEqual({ timeout_seconds: 1, max_turns: 1, max_budget_usd: null });
  });
});
