import { expect, test } from "vitest";
import type { Reply } from "../agents/agent.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { afterAsking, answerAsk, type Asking } from "./asking.ts";

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
