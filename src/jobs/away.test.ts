import { randomUUID } from "node:crypto";
import { beforeAll, describe, expect, test } from "vitest";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { AnswerInput } from "../contract/answer.ts";
import { startEngine } from "./engine.fixture.ts";
import type { Execute, Outcome } from "./run.ts";
import { someProcess, startSweep } from "./sweep.fixture.ts";

/* A job whose run waits for a model that does not answer. */

const waiting = {
  kind: "model" as const,
  id: "model_1",
  questions: [],
  plan: null,
  asked_at: new Date().toISOString(),
  until: new Date(Date.now() + 20_000).toISOString(),
};

/** Waits for the model until it is to stop, then ends as the test says. */
const startAway = async (stopped: Outcome = { kind: "failed", patch: {} }) => {
  const goOn = Promise.withResolvers<void>();
  const execute: Execute = async (_, run) => {
    await run.record({ waiting });
    const stop = new Promise((resolve) => run.signal.addEventListener("abort", resolve));
    await Promise.race([goOn.promise, stop]);
    return run.signal.aborted ? stopped : { kind: "succeeded", patch: {} };
  };
  const engine = await startEngine({ execute, concurrency: 1 });
  engine.work();
  const { id } = await engine.submit();
  const stored = () => engine.store.get(id);
  await until(async () => (await stored())?.waiting?.kind === "model");
  return { engine, id, stored, goOn: goOn.resolve };
};

describe("a job whose model is away", () => {
  test("keeps its slot, takes no answer, is not waited for as a question, and waits for nothing at its end", async () => {
    const { engine, id, stored, goOn } = await startAway();
    const next = await engine.submit();
    const answer = AnswerInput.parse({ job_id: id, text: "Go on" });
    await expect(engine.jobs.answer(answer)).rejects.toMatchObject({
      code: "not_waiting",
      message: expect.stringContaining(`asked again by itself at ${waiting.until}`) as string,
    });
    const enough = AbortSignal.timeout(100);
    expect(await engine.jobs.untilFinal(id, enough)).toMatchObject({ status: "running" });
    expect(enough.aborted).toBe(true);
    expect(await engine.store.get(next.id)).toMatchObject({ status: "queued" });
    goOn();
    await until(async () => (await stored())?.status === "succeeded");
    expect(await stored()).toMatchObject({ waiting: null });
  });

  test.each<[Outcome["kind"], object]>([
    ["failed", { status: "failed", waiting: null }],
    ["requeue", { status: "queued", waiting: null }],
    ["parked", { status: "running", unsettled: false, waiting: null }],
  ])("waits for it no longer when it is stopped and ends as %s", async (kind, record) => {
    const { engine, id, stored } = await startAway({ kind, patch: {} });
    const { attempt } = (await stored()) ?? { attempt: 0 };
    const stopped = engine.worker.stop();
    engine.worker.interrupt({ id, attempt }, "shutdown");
    await stopped;
    await until(async () => (await stored())?.unsettled === false);
    expect(await stored()).toMatchObject(record);
  });
});

describe("after a crash, with Redis", () => {
  let redis: TestRedis;
  beforeAll(async () => {
    redis = await startRedis();
  });

  test.each([
    ["failed", { process: someProcess, pid: 1 }],
    ["queued", { process: someProcess, pid: 1, retry_lost: true }],
    ["running", { process: null, resumed_at: new Date().toISOString() }],
  ])("a job that waited for its model is %s, and waits for it no longer", async (status, patch) => {
    const world = await startSweep(redis);
    const id = await world.running("gone", randomUUID(), { ...patch, waiting });
    const settled = await world.sweepUntil(id, (record) => record.waiting === null, "to be settled");
    expect(settled.status).toBe(status);
  });
});
