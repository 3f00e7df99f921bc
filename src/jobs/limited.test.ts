import { describe, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { AnswerInput } from "../contract/answer.ts";
import type { JobRecord } from "../store/job-record.ts";
import { startEngine } from "./engine.fixture.ts";
import type { Execute } from "./run.ts";

type Engine = Awaited<ReturnType<typeof startEngine>>;

/** Meets a usage limit in its first process, as the runner does, and is done in the next. */
const meetsLimit =
  (resets: () => number, begun: string[] = []): Execute =>
  async ({ id, limit, waiting: before }) => {
    begun.push(id);
    if (limit !== null && limit.waits > 0)
      return { kind: "succeeded", patch: { output: before === null ? "gone on" : "still waiting" } };
    const waiting = {
      kind: "limit" as const,
      id: "limit_1",
      questions: [],
      plan: null,
      asked_at: new Date().toISOString(),
      until: new Date(resets()).toISOString(),
    };
    const met = { credential: "one", waits: 1, since: waiting.asked_at };
    return { kind: "parked", patch: { waiting, limit: met } };
  };

/** A clock that the test sets forward. */
const clock = () => {
  let ahead = 0;
  return {
    now: (): Date => new Date(Date.now() + ahead),
    forward: (ms: number): void => void (ahead += ms),
  };
};

const hour = 3_600_000;

const untilIs = ({ store }: Engine, id: string, holds: (record: JobRecord) => boolean, what: string) =>
  until(
    async () => {
      const record = await store.get(id);
      return record !== null && holds(record) ? record : null;
    },
    { what },
  );
const untilParked = (engine: Engine, id: string) =>
  untilIs(engine, id, ({ waiting, unsettled }) => waiting?.kind === "limit" && !unsettled, "a parked job");
const untilHeld = (engine: Engine, id: string) =>
  untilIs(engine, id, ({ held }) => held !== null, "a held job");
const untilEnded = (engine: Engine, id: string) =>
  untilIs(engine, id, ({ ended_at }) => ended_at !== null, "its end");

/** With one job that is parked for an hour, and another one that is held. */
const startLimited = async (over: Parameters<typeof startEngine>[0] = {}) => {
  const { now, forward } = clock();
  const begun: string[] = [];
  const until = Date.now() + hour;
  const engine = await startEngine({ execute: meetsLimit(() => until, begun), now, concurrency: 1, ...over });
  engine.work();
  const parked = await untilParked(engine, (await engine.submit()).id);
  const held = await untilHeld(engine, (await engine.submit()).id);
  return { engine, parked, held, begun, forward, until: new Date(until).toISOString() };
};

describe("a job that meets a usage limit", () => {
  test("is parked without process and slot until the reset, then goes on in the same attempt; others are held", async () => {
    const { engine, parked, held, begun, forward, until } = await startLimited();
    expect(parked).toMatchObject({ status: "running", pid: null, process: null, waiting: { until } });
    expect(held).toMatchObject({ status: "queued", attempt: 0, held: { reason: "limit", until } });
    expect(await engine.store.limits()).toEqual([{ credential: "one", until, jobs: 1 }]);
    expect(engine.worker.runningCount()).toBe(0);
    await engine.resumeDue();
    expect(begun).toEqual([parked.id]);
    forward(hour);
    await engine.resumeDue();
    expect(await untilEnded(engine, parked.id)).toMatchObject({
      status: "succeeded",
      output: "gone on",
      attempt: 1,
      waiting: null,
    });
    // The limit of the other one's own is an hour that is over.
    expect(await untilEnded(engine, held.id)).toMatchObject({ status: "succeeded", attempt: 1, held: null });
    expect(begun.filter((id) => id === parked.id)).toHaveLength(2);
    expect(await engine.store.limits()).toEqual([]);
  });

  test("is not asked anything: an answer is refused with words that say so", async () => {
    const { engine, parked, until } = await startLimited();
    await expect(
      engine.jobs.answer(AnswerInput.parse({ job_id: parked.id, text: "Go on" })),
    ).rejects.toMatchObject({
      code: "not_waiting",
      message: expect.stringContaining(
        `usage limit of the model: it goes on by itself at ${until}`,
      ) as string,
    });
    const enough = AbortSignal.timeout(100);
    expect(await engine.jobs.untilFinal(parked.id, enough)).toMatchObject({ status: "running" });
    expect(enough.aborted).toBe(true);
  });

  test("can be cancelled while it is parked, and while it is held", async () => {
    const { engine, parked, held } = await startLimited();
    for (const id of [parked.id, held.id])
      expect(await engine.jobs.cancel(id)).toMatchObject({ status: "cancelled", waiting: null, held: null });
    expect(engine.ended.map(({ id }) => id)).toEqual([parked.id, held.id]);
    expect(await engine.store.limits()).toEqual([]);
  });

  test("goes on after a restart at its time, once; held ones too", async () => {
    const { engine: first, parked, held, forward, until } = await startLimited();
    await first.worker.stop();
    const { now, forward: forwardToo } = clock();
    const begun: string[] = [];
    const second = await startEngine({
      execute: meetsLimit(() => Date.now(), begun),
      directory: first.directory,
      now,
    });
    second.work();
    await second.recover();
    expect(await untilHeld(second, held.id)).toMatchObject({ held: { until }, rested_ms: held.rested_ms });
    expect(await untilParked(second, parked.id)).toMatchObject({ waiting: { until } });
    forward(hour);
    forwardToo(hour);
    await second.resumeDue();
    for (const id of [parked.id, held.id]) await untilEnded(second, id);
    expect(begun.filter((id) => id === parked.id)).toEqual([parked.id]);
  });

  test("and is lost between its reset and its next process is parked again, and goes on at once", async () => {
    const { engine: first, parked, held } = await startLimited();
    await first.store.update(
      parked.id,
      { status: ["running"] },
      { waiting: null, unsettled: true, resumed_at: new Date().toISOString() },
    );
    const begun: string[] = [];
    const second = await startEngine({
      execute: meetsLimit(() => Date.now(), begun),
      directory: first.directory,
      settleLost: async () => ({ requeue: true, patch: {} }),
    });
    second.work();
    await second.recover();
    expect(await untilEnded(second, parked.id)).toMatchObject({ status: "succeeded", attempt: 1 });
    expect(begun).toContain(parked.id);
    await untilEnded(second, held.id);
  });
});

describe("a job that is held", () => {
  test("does not expire meanwhile: its TTL goes on afterwards", async () => {
    const { engine, held, forward } = await startLimited();
    // Longer than the TTL of 60 s.
    forward(hour - 10_000);
    await engine.round();
    expect(await engine.store.get(held.id)).toMatchObject({ status: "queued" });
    await engine.worker.stop();
    forward(60_000);
    await engine.round();
    expect(await engine.store.get(held.id)).toMatchObject({ status: "queued" });
    forward(60_000);
    await engine.round();
    expect(await engine.store.get(held.id)).toMatchObject({ status: "expired", held: null });
  });

  test.each([
    ["another credential", { digest: "two" }],
    ["a credential that it can change", { canChange: async () => true }],
  ])("is begun by a service with %s", async (_what, credential) => {
    const { engine: first, held } = await startLimited();
    await first.worker.stop();
    const second = await startEngine({
      execute: async () => ({ kind: "succeeded", patch: {} }),
      directory: first.directory,
      credential,
    });
    second.work();
    await second.recover();
    expect(await untilEnded(second, held.id)).toMatchObject({ status: "succeeded", held: null });
  });
});
