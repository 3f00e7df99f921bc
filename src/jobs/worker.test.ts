import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { ServiceError } from "../contract/errors.ts";
import type { JobRecord } from "../store/job-record.ts";
import { until } from "../../test/until.ts";
import { startEngine, succeed } from "./engine.fixture.ts";

/** The engine, whose store writes outcomes only when `before` lets it. */
const startWith = async (before: (id: string) => Promise<void>) => {
  const begun: string[] = [];
  const engine = await startEngine({
    execute: (record, run) => {
      begun.push(record.id);
      return succeed(record, run);
    },
  });
  const update = engine.store.update;
  engine.store.update = async (id, guard, patch, options) => {
    if (guard.status.includes("running")) await before(id);
    return await update(id, guard, patch, options);
  };
  const stateOf = async ({ id }: JobRecord) => (await engine.store.get(id))?.status;
  return { ...engine, begun, stateOf };
};

test("the slot of a job that is over is free before its outcome is written, and stopping waits for that", async () => {
  const written = Promise.withResolvers<void>();
  const { submit, worker, stateOf } = await startWith(() => written.promise);
  const job = await submit();
  expect(await worker.work(job.id)).toBe("done");
  expect(await stateOf(job)).toBe("running");
  expect(worker.runs()).toMatchObject([{ id: job.id }]);
  let stopped = false;
  const stopping = worker.stop().then(() => (stopped = true));
  await new Promise(setImmediate);
  expect(stopped).toBe(false);
  written.resolve();
  await stopping;
  expect(await stateOf(job)).toBe("succeeded");
});

test("a job waits for the worktree of one that is over until the outcome of that is written", async () => {
  const written = Promise.withResolvers<void>();
  const { submit, worker, begun, store } = await startWith(() => written.promise);
  const worktree_id = randomUUID();
  const [first, second] = [await submit({ worktree_id }), await submit({ worktree_id })];
  expect(await worker.work(first.id)).toBe("done");
  const answer = worker.work(second.id);
  await store.get(second.id);
  await new Promise(setImmediate);
  expect(begun).toEqual([first.id]);
  written.resolve();
  // It need not rest first.
  expect(await answer).toBe("done");
  expect(begun).toEqual([first.id, second.id]);
});

test("an outcome that the store does not take keeps one slot from beginning more", async () => {
  let away = "";
  const { submit, worker, begun, stateOf } = await startWith(async (id) => {
    if (id === away) throw new ServiceError("store_unavailable", "away");
  });
  const [first, second, third] = [await submit(), await submit(), await submit()];
  away = first.id;
  expect(await worker.work(first.id)).toBe("done");
  await new Promise(setImmediate);
  const held = worker.work(second.id);
  expect(await worker.work(third.id)).toBe("done");
  expect(begun).toEqual([first.id, third.id]);
  away = "";
  expect(await held).toBe("done");
  expect(begun).toEqual([first.id, third.id, second.id]);
  await until(async () => (await stateOf(second)) === "succeeded");
});

test("a job is not kept by a slot that waits for an outcome for long", async () => {
  let away = true;
  const { submit, worker, begun } = await startWith(async () => {
    if (away) throw new ServiceError("store_unavailable", "away");
  });
  const [first, second] = [await submit(), await submit()];
  await worker.work(first.id);
  await new Promise(setImmediate);
  expect(await worker.work(second.id)).toBe("later");
  expect(begun).toEqual([first.id]);
  away = false;
  expect(await worker.work(second.id)).toBe("done");
});
