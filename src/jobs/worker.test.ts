import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { JobRecord } from "../store/job-record.ts";
import { until } from "../../test/until.ts";
import { never, startEngine, succeed, untilInterrupted } from "./engine.fixture.ts";
import type { Run } from "./run.ts";

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

test("what is known late of a run does not end the next one of the same job", async () => {
  const begun: Run[] = [];
  const { submit, worker, work, queue, jobs } = await startEngine({
    execute: async (record, run) => {
      begun.push(run);
      return record.attempt === 1 ? { kind: "requeue", patch: {} } : await untilInterrupted(record, run);
    },
  });
  const { id } = await submit();
  work();
  await until(() => begun.length === 2);
  worker.interrupt({ id, attempt: 1 }, "fence");
  expect(begun.at(-1)?.signal.aborted).toBe(false);
  worker.interrupt({ id, attempt: 2 });
  expect(await jobs.untilFinal(id, never)).toMatchObject({ attempt: 2 });
  await queue.close();
});

describe("a job that resumes a session", () => {
  const startSession = async () => {
    let time = Date.now();
    const engine = await startEngine({ now: () => new Date(time) });
    const { id } = await engine.submit();
    const lost = { status: "failed" as const, session_id: randomUUID(), worktree_id: id, unsettled: true };
    const ended_at = new Date(time).toISOString();
    await engine.store.update(id, { status: ["queued"] }, { ...lost, ended_at });
    const settle = () => engine.store.update(id, { status: ["failed"] }, { unsettled: false });
    return { ...engine, id, session_id: lost.session_id, settle, wait: (ms: number) => (time += ms) };
  };

  test.each(["session", "worktree"])(
    "or is given its worktree (%s) waits until the run before it is cleaned up after, since that may still be at work where it is cut off",
    async (by) => {
      const { submit, worker, session_id, id: worktree_id, settle } = await startSession();
      const { id } = await submit(by === "session" ? { session_id } : { worktree_id });
      expect(await worker.work(id)).toBe("later");
      await settle();
      expect(await worker.work(id)).toBe("done");
    },
  );

  test("continues when the instance of the run before it has been unreachable for the grace", async () => {
    const { submit, worker, session_id, wait, store } = await startSession();
    const { id } = await submit({ session_id });
    await store.update(id, { status: ["queued"] }, { ttl_seconds: 1000 });
    expect(await worker.work(id)).toBe("later");
    wait(301_000);
    expect(await worker.work(id)).toBe("done");
    await until(async () => (await store.get(id))?.status === "succeeded");
  });
});
