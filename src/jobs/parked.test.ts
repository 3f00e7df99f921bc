import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { AnswerInput } from "../contract/answer.ts";
import type { Waiting } from "../contract/job.ts";
import { startEngine } from "./engine.fixture.ts";
import type { Execute } from "./run.ts";
import { settle } from "./settle.ts";

const question = { question: "Which database?", header: "Database", options: [], multi_select: false };

const waitingFor = (seconds = 60): Waiting => ({
  kind: "question",
  id: "toolu_1",
  questions: [question],
  plan: null,
  asked_at: new Date().toISOString(),
  until: new Date(Date.now() + seconds * 1000).toISOString(),
});

/** Asks, unless it has the answer already, as the runner does; notes what it got. */
const asking =
  (got: string[], seconds?: number): Execute =>
  async (record, run) => {
    const known = record.asked?.answer ?? null;
    const answer = known ?? (await run.ask(waitingFor(seconds)));
    if (answer === null) return { kind: "parked", patch: { num_turns: 1 } };
    got.push(`${known === null ? "held" : "parked"}: ${JSON.stringify(answer)}`);
    return { kind: "succeeded", patch: {} };
  };

const answerOf = (job_id: string, over: Partial<AnswerInput> = {}): AnswerInput =>
  AnswerInput.parse({ job_id, text: "SQLite", ...over });

const sqlite = JSON.stringify({ kind: "answers", answers: { "Which database?": "SQLite" } });

type Engine = Awaited<ReturnType<typeof startEngine>>;

const untilAsked = ({ store }: Engine, id: string) =>
  until(async () => (await store.get(id))?.waiting, { what: "the question" });

const untilParked = ({ store }: Engine, id: string) =>
  until(async () => {
    const record = await store.get(id);
    return record?.unsettled === false && record.asked !== null ? record : null;
  });

const untilEnded = ({ store }: Engine, id: string) =>
  until(async () => {
    const record = await store.get(id);
    return record?.ended_at === null ? null : record;
  });

describe("a job whose agent asks a person", () => {
  test("gets the answer while its process is held, and waits for nothing any more", async () => {
    const got: string[] = [];
    const engine = await startEngine({ execute: asking(got) });
    engine.work();
    const { id } = await engine.submit();
    expect(await untilAsked(engine, id)).toMatchObject({ id: "toolu_1" });
    expect(await engine.jobs.answer(answerOf(id))).toMatchObject({ status: "running", waiting: null });
    expect(await untilEnded(engine, id)).toMatchObject({ status: "succeeded", waiting: null, asked: null });
    expect(got).toEqual([`held: ${sqlite}`]);
  });

  test("is parked after its time: no process, no slot; with the answer it goes on in the same attempt", async () => {
    const got: string[] = [];
    const engine = await startEngine({ execute: asking(got), concurrency: 1, questionLive: 0 });
    engine.work();
    const { id } = await engine.submit();
    const parked = await untilParked(engine, id);
    expect(parked).toMatchObject({ status: "running", pid: null, process: null, attempt: 1, num_turns: 1 });
    expect(parked.waiting).toMatchObject({ id: "toolu_1" });
    await until(() => engine.worker.runningCount() === 0);
    await engine.jobs.answer(answerOf(id));
    const ended = await untilEnded(engine, id);
    expect(ended).toMatchObject({ status: "succeeded", attempt: 1, started_at: parked.started_at });
    expect(ended.stages.map(({ stage }) => stage)).toEqual(["queued", "claimed", "ended"]);
    expect(got).toEqual([`parked: ${sqlite}`]);
  });

  test("is parked at once when another job waits for its slot", async () => {
    const got: string[] = [];
    const engine = await startEngine({ execute: asking(got), concurrency: 1 });
    engine.work();
    const first = await engine.submit();
    await untilAsked(engine, first.id);
    const second = await engine.submit();
    await untilParked(engine, first.id);
    await untilAsked(engine, second.id);
  });

  test("is parked at once when its instance is drained", async () => {
    const engine = await startEngine({ execute: asking([]) });
    engine.work();
    const { id } = await engine.submit();
    await untilAsked(engine, id);
    engine.worker.park(true);
    await untilParked(engine, id);
    await until(() => engine.worker.runningCount() === 0);
  });

  test("keeps its worktree and its session: another job that wants one of them waits until it has ended", async () => {
    const began: string[] = [];
    const session_id = randomUUID();
    const work = asking([]);
    const execute: Execute = async (record, run) => {
      began.push(record.task);
      if (record.task !== "first") return { kind: "succeeded", patch: {} };
      await run.record({ session_id, worktree_id: record.id });
      return await work(record, run);
    };
    const engine = await startEngine({ execute, questionLive: 0 });
    engine.work();
    const { id } = await engine.submit({ task: "first" });
    await untilParked(engine, id);
    const same = await engine.submit({ task: "same session", session_id });
    const other = await engine.submit({ task: "same worktree", worktree_id: id });
    await engine.submit({ task: "anything else" });
    await until(() => began.includes("anything else"));
    expect(began).toEqual(["first", "anything else"]);
    await engine.jobs.answer(answerOf(id));
    for (const each of [same, other])
      expect(await untilEnded(engine, each.id)).toMatchObject({ status: "succeeded" });
  });

  test("is parked by a stop, and goes on after the next start when it is answered", async () => {
    const got: string[] = [];
    const first = await startEngine({ execute: asking(got) });
    first.work();
    const { id } = await first.submit();
    await untilAsked(first, id);
    await first.worker.stop();
    expect(await untilParked(first, id)).toMatchObject({ waiting: { id: "toolu_1" } });
    const second = await startEngine({ execute: asking(got), directory: first.directory });
    second.work();
    await second.recover();
    await second.jobs.answer(answerOf(id));
    expect(await untilEnded(second, id)).toMatchObject({ status: "succeeded" });
  });

  test("has the time to defer its question when the service stops", async () => {
    const stopped: boolean[] = [];
    const work = asking([]);
    const execute: Execute = async (record, run) => {
      const outcome = await work(record, run);
      stopped.push(run.signal.aborted);
      return outcome;
    };
    const engine = await startEngine({ execute });
    engine.work();
    const { id } = await engine.submit();
    await untilAsked(engine, id);
    await engine.worker.stop();
    expect(stopped).toEqual([false]);
  });

  test("says where its work is when it cannot be resumed", async () => {
    const execute: Execute = async (record, run) => {
      if (record.asked !== null) return { kind: "failed", patch: { failure_reason: "profile_invalid" } };
      await run.ask(waitingFor());
      return { kind: "parked", patch: { salvage_ref: "refs/service/salvage/x" } };
    };
    const engine = await startEngine({ execute, questionLive: 0 });
    engine.work();
    const { id } = await engine.submit();
    await untilParked(engine, id);
    await engine.jobs.answer(answerOf(id));
    expect(await untilEnded(engine, id)).toMatchObject({
      status: "failed",
      salvage_ref: "refs/service/salvage/x",
    });
  });

  test.each(["cancelled", "failed"] as const)(
    "and is %s elsewhere after its instance was lost is cleaned up by that when it is back",
    async (status) => {
      const first = await startEngine({ execute: () => new Promise(() => undefined) });
      first.work();
      const { id } = await first.submit();
      const running = await until(async () => {
        const record = await first.store.get(id);
        return record?.status === "running" ? record : null;
      });
      const waiting = waitingFor(-1);
      const checking = { report: null, tell: false };
      const asked = status === "failed" ? { waiting, answer: null } : null;
      await first.store.update(id, { status: ["running"] }, { waiting: asked && waiting, asked, checking });
      // As the sweep of another instance does.
      await settle(first, running, { kind: "lost", cleaned: null });
      if (status === "cancelled") await first.jobs.cancel(id);
      else await first.round();
      expect(await first.store.get(id)).toMatchObject({ status, unsettled: true, checking });
      const cleaned: object[] = [];
      const second = await startEngine({
        directory: first.directory,
        settleLost: async (record) => {
          cleaned.push({ id: record.id, checking: record.checking });
          return { requeue: false, patch: { salvage_ref: "refs/service/salvage/x" } };
        },
      });
      await second.recover();
      expect(cleaned).toEqual([{ id, checking }]);
      expect(await second.store.get(id)).toMatchObject({
        status,
        unsettled: false,
        checking: null,
        salvage_ref: "refs/service/salvage/x",
      });
    },
  );

  test.each([
    ["has no answer yet", null],
    ["has its answer, and the agent perhaps", { kind: "answers", answers: {} } as const],
  ])(
    "and %s when its instance dies is parked with the same id; nobody is asked anew",
    async (_what, answer) => {
      const got: string[] = [];
      const first = await startEngine({ execute: () => new Promise(() => undefined) });
      first.work();
      const { id } = await first.submit();
      await until(async () => (await first.store.get(id))?.status === "running");
      const waiting = waitingFor();
      await first.store.update(
        id,
        { status: ["running"] },
        { waiting: answer === null ? waiting : null, asked: { waiting, answer } },
      );
      const cleaned: string[] = [];
      const second = await startEngine({
        execute: asking(got),
        directory: first.directory,
        settleLost: async (record) => {
          cleaned.push(record.id);
          return { requeue: true, patch: {} };
        },
      });
      second.work();
      await second.recover();
      expect(cleaned).toEqual([id]);
      if (answer === null) {
        await until(async () => (await untilParked(second, id)).waiting?.id === "toolu_1");
        await second.jobs.answer(answerOf(id));
      }
      expect(await untilEnded(second, id)).toMatchObject({ status: "succeeded", attempt: 1 });
      expect(got).toHaveLength(1);
    },
  );

  test("fails with needs_input when nobody answers in time", async () => {
    const engine = await startEngine({ execute: asking([], -1), questionLive: 0 });
    engine.work();
    const { id } = await engine.submit();
    await untilParked(engine, id);
    await engine.round();
    expect(await engine.store.get(id)).toMatchObject({
      status: "failed",
      failure_reason: "needs_input",
      outcome: "question",
      retryable: true,
      waiting: null,
      error: expect.stringContaining("Which database?") as string,
    });
    expect(engine.ended.map((record) => record.id)).toEqual([id]);
  });

  test("can be cancelled while it is parked", async () => {
    const engine = await startEngine({ execute: asking([]), questionLive: 0 });
    engine.work();
    const { id } = await engine.submit();
    await untilParked(engine, id);
    expect(await engine.jobs.cancel(id)).toMatchObject({
      status: "cancelled",
      waiting: null,
      unsettled: false,
    });
    await expect(engine.jobs.answer(answerOf(id))).rejects.toMatchObject({ code: "not_waiting" });
    expect(engine.ended.map((record) => record.id)).toEqual([id]);
  });

  test("takes one answer, and only to the question that it asks", async () => {
    const engine = await startEngine({ execute: asking([]), questionLive: 0 });
    engine.work();
    const { id } = await engine.submit();
    await untilParked(engine, id);
    const refused = (over: Partial<AnswerInput>) =>
      engine.jobs.answer(answerOf(id, over)).catch((error: { code: string; message: string }) => error.code);
    expect(await refused({ id: "toolu_0" })).toBe("question_changed");
    expect(await refused({ text: "" })).toBe("invalid_request");
    expect(await refused({ answers: { "Which colour?": "red" } })).toBe("invalid_request");
    expect(await refused({ approve: true })).toBe("invalid_request");
    expect((await engine.store.get(id))?.waiting).not.toBeNull();
    const both = await Promise.all([refused({}), refused({ text: "Postgres" })]);
    expect(both.filter((code) => code === "not_waiting")).toHaveLength(1);
  });
});
