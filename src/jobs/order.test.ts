import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { RunTaskInput } from "../contract/job.ts";
import type { Execute } from "./run.ts";
import { startEngine, untilInterrupted } from "./engine.fixture.ts";

test("jobs that share a worktree run in the order of their submission, whichever the queue delivers first", async () => {
  const began: string[] = [];
  const engine = await startEngine({
    execute: async (record, run) => {
      began.push(record.task);
      return record.task === "A" ? await untilInterrupted(record, run) : { kind: "succeeded", patch: {} };
    },
  });
  const worktree_id = randomUUID();
  const [a, b, c] = [
    await engine.submit({ task: "A", worktree_id }),
    await engine.submit({ task: "B", worktree_id }),
    await engine.submit({ task: "C", worktree_id }),
  ];
  const elsewhere = await engine.submit({ task: "elsewhere", worktree_id: randomUUID() });
  const working = engine.worker.work(a.id);
  await until(() => began.includes("A"));
  expect(await engine.worker.work(c.id)).toBe("later");
  await engine.jobs.cancel(a.id);
  await working;
  await until(async () => (await engine.store.get(a.id))?.unsettled === false);
  expect(await engine.worker.work(c.id)).toBe("later");
  expect(await engine.worker.work(elsewhere.id)).toBe("done");
  expect(await engine.worker.work(b.id)).toBe("done");
  await until(async () => (await engine.store.get(b.id))?.unsettled === false);
  expect(await engine.worker.work(c.id)).toBe("done");
  expect(began).toEqual(["A", "elsewhere", "B", "C"]);
});

test("jobs of one millisecond run in the order of their submission, in a worktree as in a session", async () => {
  const began: string[] = [];
  const execute: Execute = async (record) => {
    began.push(record.task);
    return { kind: "succeeded", patch: {} };
  };
  const session_id = randomUUID();
  const ofWorktree = { worktree_id: randomUUID() };
  const ofSession = { session_id };
  for (const shared of [ofWorktree, ofSession]) {
    began.length = 0;
    const engine = await startEngine({
      execute,
      now: () => new Date("2026-05-04T10:00:00Z"),
      concurrency: 1,
    });
    const first = await engine.submit();
    await engine.store.update(first.id, { status: ["queued"] }, { session_id });
    await engine.worker.work(first.id);
    const tasks = Array.from({ length: 4 }, (_, nth) => `${nth}`);
    const ids: string[] = [];
    for (const task of tasks) ids.push((await engine.submit({ task, ...shared })).id);
    // The queue delivers the last first.
    for (const id of ids.toReversed()) await engine.queue.add({ id, boundTo: null });
    engine.work();
    await until(() => began.length === 5);
    expect(began.slice(1)).toEqual(tasks);
  }
});

test("a clock that is set back takes the times of further jobs with it", async () => {
  let time = Date.parse("2026-05-04T10:00:00Z");
  const engine = await startEngine({ now: () => new Date(time) });
  const submitted = async () => Date.parse((await engine.submit()).created_at);
  expect([await submitted(), await submitted()]).toEqual([time, time + 1]);
  time -= 7_200_000;
  expect([await submitted(), await submitted()]).toEqual([time, time + 1]);
});

test("one that is cancelled or whose record is gone holds up none of those after it", async () => {
  const engine = await startEngine();
  const worktree_id = randomUUID();
  const first = await engine.submit({ task: "first", worktree_id });
  const second = await engine.submit({ task: "second", worktree_id });
  await engine.jobs.cancel(first.id);
  expect(await engine.worker.work(second.id)).toBe("done");
});

const file = { name: "data.csv", content: "x", encoding: "utf-8" };
const { options } = RunTaskInput.parse({ task: "any", options: { files: [file] } });

/** An engine whose store of files the test steers. */
const withFiles = async (put: () => Promise<void> = async () => undefined) => {
  const stored = new Set<string>();
  const taskFiles = {
    put: async (id: string): Promise<void> => {
      await put();
      stored.add(id);
    },
    remove: async (id: string): Promise<void> => void stored.delete(id),
  };
  return { stored, engine: await startEngine({ taskFiles }) };
};

test("files that cannot be stored make no job", async () => {
  const full = new ServiceError("store_unavailable", "the disk is full");
  const { engine } = await withFiles(() => Promise.reject(full));
  await expect(engine.submit({ options })).rejects.toBe(full);
  expect(await engine.store.ids("queued")).toEqual([]);
});

test("a job that is refused, that another request has made, or that cannot be stored leaves no files", async () => {
  const { stored, engine } = await withFiles();
  const first = await engine.submit({ options }, { idempotencyKey: "one" });
  const again = await engine.submit({ options }, { idempotencyKey: "one" });
  expect(again.id).toBe(first.id);
  expect([...stored]).toEqual([first.id]);
  for (let jobs = 1; jobs < 5; jobs += 1) await engine.submit();
  await expect(engine.submit({ options })).rejects.toMatchObject({ code: "queue_full" });
  engine.store.create = async () => {
    throw new ServiceError("store_unavailable", "away");
  };
  await expect(engine.submit({ options })).rejects.toMatchObject({ code: "store_unavailable" });
  expect([...stored]).toEqual([first.id]);
});

test("a job whose submission was stored although the reply was lost keeps its files", async () => {
  const { stored, engine } = await withFiles();
  const { create } = engine.store;
  engine.store.create = async (...args) => {
    await create(...args);
    throw new ServiceError("store_unavailable", "the reply is lost");
  };
  await expect(engine.submit({ options })).rejects.toMatchObject({ code: "store_unavailable" });
  expect(await engine.store.ids("queued")).toEqual([...stored]);
});
