import { describe, expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { startEngine } from "./engine.fixture.ts";
import type { Outcome, Run } from "./run.ts";

const hours = 3_600_000;

/** An engine with one job, whose run the test steers. */
const startRun = async (options: Parameters<typeof startEngine>[0] = {}) => {
  const begun = Promise.withResolvers<Run>();
  const over = Promise.withResolvers<Outcome>();
  const engine = await startEngine({
    execute: async (_record, run) => (begun.resolve(run), await over.promise),
    ...options,
  });
  engine.work();
  const { id } = await engine.submit();
  const { update } = engine.store;
  return {
    engine,
    id,
    run: await begun.promise,
    end: over.resolve,
    read: () => engine.store.get(id),
    loseStore: (): void => {
      engine.store.update = async () => {
        throw new ServiceError("store_unavailable", "away");
      };
    },
    findStore: (): void => void (engine.store.update = update),
  };
};

describe("what a run notes while the store is away", () => {
  const note = ({ run }: Awaited<ReturnType<typeof startRun>>): void => {
    run.note({ base_sha: "a".repeat(40), cached_clone: "/cache" });
    run.warn("Git LFS is not there");
    run.stage("fetched");
    run.warn("It has a link that leads out");
  };
  const warnings = ["Git LFS is not there", "It has a link that leads out"];
  const noted = {
    base_sha: "a".repeat(40),
    cached_clone: "/cache",
    // The first one came with the submission.
    warnings: [expect.stringContaining("No repository"), ...warnings],
  };

  test("is on record with its next note", async () => {
    const job = await startRun();
    job.loseStore();
    note(job);
    const recorded = job.run.record({ pid: 7 });
    job.findStore();
    expect(await recorded).toBe(true);
    const record = await job.read();
    expect(record).toMatchObject({ ...noted, pid: 7 });
    expect(record?.stages.map(({ stage }) => stage)).toEqual(["queued", "claimed", "fetched"]);
  });

  test("is on record with its outcome, when nothing else follows", async () => {
    const job = await startRun();
    job.loseStore();
    note(job);
    job.end({ kind: "failed", patch: { failure_reason: "internal" } });
    await until(() => job.engine.worker.runningCount() === 1);
    job.findStore();
    await until(async () => (await job.read())?.status === "failed");
    const record = await job.read();
    expect(record).toMatchObject(noted);
    expect(record?.stages.map(({ stage }) => stage)).toEqual(["queued", "claimed", "fetched", "ended"]);
  });

  test.each(["before it was cancelled", "of a job that was cancelled meanwhile"])(
    "replaces no end: %s",
    async (when) => {
      const job = await startRun();
      if (when.startsWith("before")) {
        job.loseStore();
        note(job);
        job.findStore();
      }
      await job.engine.jobs.cancel(job.id);
      job.loseStore();
      if (!when.startsWith("before")) note(job);
      job.end({ kind: "failed", patch: {} });
      await until(() => job.engine.worker.runningCount() === 1);
      job.findStore();
      const record = await until(async () => {
        const read = await job.read();
        return read?.unsettled === false ? read : null;
      });
      expect(record).toMatchObject({ status: "cancelled", warnings: noted.warnings });
      expect(record.stages.map(({ stage }) => stage)).toEqual(["queued", "claimed", "ended"]);
    },
  );

  test("is noted once, though the store had taken it and only the reply was lost", async () => {
    const job = await startRun();
    const { update } = job.engine.store;
    job.engine.store.update = async (...change) => {
      await update(...change);
      throw new ServiceError("store_unavailable", "the reply is lost");
    };
    note(job);
    await until(async () => (await job.read())?.warnings.length === 3);
    job.findStore();
    await job.run.record({ pid: 7 });
    expect((await job.read())?.warnings.slice(1)).toEqual(warnings);
  });
});

/** One that is parked for it does not go on during the test. */
const longLimit = {
  kind: "limit" as const,
  id: "limit_1",
  questions: [],
  plan: null,
  asked_at: new Date().toISOString(),
  until: new Date(Date.now() + 100 * hours).toISOString(),
};

describe("the time that a job has used", () => {
  test.each([
    ["parked", "running"],
    ["failed", "failed"],
  ] as const)(
    "is no longer because the clock was set or the machine slept: it is %s",
    async (kind, status) => {
      const clock = { shift: 0 };
      const now = (): Date => new Date(Date.now() + clock.shift);
      const job = await startRun({ now });
      clock.shift = 8 * hours;
      job.end({ kind, patch: kind === "parked" ? { waiting: longLimit } : {} });
      await until(async () => (await job.read())?.unsettled === false);
      const record = await job.read();
      expect(record?.status).toBe(status);
      expect(record?.worked_ms).toBeLessThan(hours);
      expect(record?.duration_ms ?? 0).toBeLessThan(hours);
    },
  );

  test("is what was noted, when the service was killed and is started again the next day", async () => {
    const job = await startRun();
    await job.run.record({ asked: null, checking: { report: null, tell: false } });
    const second = await startEngine({
      directory: job.engine.directory,
      now: () => new Date(Date.now() + 24 * hours),
      execute: async (_record, run) => ({ kind: "failed", patch: { summary: String(run.workedMs()) } }),
      settleLost: async () => ({ requeue: true, patch: {} }),
    });
    second.work();
    await second.recover();
    await until(async () => (await second.store.get(job.id))?.status === "failed");
    expect(Number((await second.store.get(job.id))?.summary)).toBeLessThan(hours);
  });

  test("of a cancelled job is known when its run is over", async () => {
    const job = await startRun();
    await job.engine.jobs.cancel(job.id);
    job.end({ kind: "failed", patch: {} });
    await until(async () => (await job.read())?.unsettled === false);
    const record = await job.read();
    expect(record?.duration_ms).toBe(record?.worked_ms);
    expect(record?.duration_ms).toBeGreaterThan(0);
  });
});
