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
  const job = { record: sampleRecord(), run, questions: "ask" as const, questionTtl: 60 };
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
  const now = new Date("2026-01-01T00:01:00Z");
  const used = { started_at: "2026-01-01T00:00:00Z", num_turns: 7, cost_usd: 0.4, worked_ms: 20_000 };
  const limits = { timeout_seconds: 100, max_turns: 10, max_budget_usd: 1 };

  test.each([
    ["after it was parked", { resumed_at: "2026-01-01T00:00:50Z" }, 70],
    ["in a turn to mend red checks", { check_round: 1, worked_ms: 0 }, 40],
  ])("%s is what its earlier processes have left", (_when, over, timeout_seconds) => {
    const left = leftOf(sampleRecord({ ...used, ...over, status: "running", unsettled: true }), limits, now);
    expect(left).toEqual({ timeout_seconds, max_turns: 3, max_budget_usd: 0.6 });
  });

  test("is a little where nothing is left, and no limit where there is none", () => {
    const record = sampleRecord({
      ...used,
      num_turns: 12,
      resumed_at: "2026-01-01T00:00:50Z",
      worked_ms: 99_000,
      status: "running",
      unsettled: true,
    });
    const none = { timeout_seconds: 100, max_turns: 10, max_budget_usd: null };
    expect(leftOf(record, none, now)).toEqual({ timeout_seconds: 1, max_turns: 1, max_budget_usd: null });
  });
});
