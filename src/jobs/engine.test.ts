import { hash, randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { RunOptions } from "../contract/run-options.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { createLocalLocks } from "../store/locks.ts";
import { never, startEngine, succeed, untilInterrupted } from "./engine.fixture.ts";
import { claimIfFree } from "./job-locks.ts";
import type { Execute } from "./run.ts";

test("a job goes from queued through running to succeeded, and its record says when", async () => {
  const engine = await startEngine();
  const queued = await engine.submit();
  expect(queued).toMatchObject({ status: "queued", attempt: 0, started_at: null, mode: "fire_and_forget" });
  engine.work();
  const job = await engine.jobs.untilFinal(queued.id, never);
  expect(job).toMatchObject({
    status: "succeeded",
    attempt: 1,
    pod_name: "pod",
    exit_code: 0,
    failure_reason: null,
  });
  expect(job.stages.map(({ stage }) => stage)).toEqual(["queued", "claimed", "ended"]);
  expect(job.duration_ms).not.toBeNull();
  const logged = [];
  for await (const event of engine.events.read(job.id, 0, never))
    logged.push(event.type === "stage" && event.stage);
  expect(logged).toEqual(["queued", "claimed", "ended"]);
});

test("a queued job that is cancelled never runs; one that has ended stays as it is", async () => {
  let runs = 0;
  const engine = await startEngine({
    execute: async () => ({ kind: "succeeded", patch: { pid: (runs += 1) } }),
  });
  const { id } = await engine.submit();
  expect(await engine.jobs.cancel(id)).toMatchObject({ status: "cancelled" });
  const other = await engine.submit();
  engine.work();
  const ended = await engine.jobs.untilFinal(other.id, never);
  expect(runs).toBe(1);
  expect((await engine.jobs.get(id)).status).toBe("cancelled");
  expect(await engine.jobs.cancel(other.id)).toEqual(ended);
});

test("a running job that is cancelled is final at once, and what its run leaves is added without changing that", async () => {
  const engine = await startEngine({ execute: untilInterrupted });
  const { id } = await engine.submit();
  engine.work();
  await until(async () => (await engine.jobs.get(id)).status === "running");
  const cancelled = await engine.jobs.cancel(id);
  expect(cancelled).toMatchObject({ status: "cancelled", exit_code: null });
  const settled = await until(async () => {
    const record = await engine.jobs.get(id);
    return record.unsettled ? null : record;
  });
  expect(settled).toMatchObject({
    status: "cancelled",
    exit_code: 143,
    failure_reason: null,
    ended_at: cancelled.ended_at,
  });
});

test("whenever the cancel comes, the job ends in one final state and stays there", async () => {
  for (let turn = 0; turn < 40; turn += 1) {
    const engine = await startEngine();
    const { id } = await engine.submit();
    engine.work();
    for (let wait = 0; wait < turn % 20; wait += 1) await new Promise((resolve) => setImmediate(resolve));
    const answer = await engine.jobs.cancel(id);
    await until(async () => !(await engine.jobs.get(id)).unsettled);
    expect((await engine.jobs.get(id)).status).toBe(answer.status);
    expect(["cancelled", "succeeded"]).toContain(answer.status);
  }
});

test("two jobs of one session never run at the same time, others pass them", async () => {
  const session = randomUUID();
  const gates = new Map<string, () => void>();
  let time = Date.now();
  const engine = await startEngine({
    // Jobs of one millisecond have no order.
    now: () => new Date((time += 1)),
    execute: (record) =>
      new Promise((resolve) =>
        gates.set(record.id, () => resolve({ kind: "succeeded", patch: { session_id: session } })),
      ),
  });
  const begun = await engine.submit();
  engine.work();
  await until(() => gates.has(begun.id));
  gates.get(begun.id)?.();
  await engine.jobs.untilFinal(begun.id, never);
  const first = await engine.submit({ session_id: session });
  const second = await engine.submit({ session_id: session });
  const third = await engine.submit();
  await until(() => gates.has(first.id) && gates.has(third.id));
  expect((await engine.jobs.get(second.id)).status).toBe("queued");
  gates.get(first.id)?.();
  await until(() => gates.has(second.id));
  gates.get(second.id)?.();
  gates.get(third.id)?.();
  expect((await engine.jobs.untilFinal(second.id, never)).status).toBe("succeeded");
});

test("the same idempotency key gives the same job, with another request it is a conflict", async () => {
  const engine = await startEngine();
  const [one, two] = await Promise.all([
    engine.submit({}, { idempotencyKey: "k" }),
    engine.submit({ wait: true }, { idempotencyKey: "k" }),
  ]);
  expect(two.id).toBe(one.id);
  await expect(engine.submit({ task: "Other" }, { idempotencyKey: "k" })).rejects.toMatchObject({
    code: "idempotency_conflict",
  });
  expect((await engine.submit({}, { idempotencyKey: "k", principal: "another" })).id).not.toBe(one.id);
  await expect(engine.submit({}, { idempotencyKey: "a b" })).rejects.toMatchObject({
    code: "invalid_request",
  });
});

test("an idempotency digest covers only what differs from the defaults, so that a new field changes none", async () => {
  const engine = await startEngine();
  const digestOf = async (options: Partial<RunOptions>, key: string): Promise<string | undefined> => {
    const { id } = await engine.submit({ options: RunOptions.parse(options) }, { idempotencyKey: key });
    return (await engine.store.get(id))?.idempotency?.body;
  };
  expect(await digestOf({}, "1")).toBe(hash("sha256", JSON.stringify({ task: "Fix it" })));
  const given = { task: "Fix it", options: { model: "opus" } };
  expect(await digestOf({ model: "opus" }, "2")).toBe(hash("sha256", JSON.stringify(given)));
});

test("past the limit of waiting jobs submissions are refused with queue_full", async () => {
  const engine = await startEngine();
  for (let n = 0; n < 5; n += 1) await engine.submit();
  await expect(engine.submit()).rejects.toMatchObject({ code: "queue_full" });
});

test("an execution that throws fails the job as internal, without secrets, and the next one runs", async () => {
  let first = true;
  const engine = await startEngine({
    concurrency: 1,
    execute: async (record, run) => {
      if (!first) return await succeed(record, run);
      first = false;
      throw new Error("boom hunter2-secret");
    },
  });
  const [bad, good] = [await engine.submit(), await engine.submit()];
  engine.work();
  expect(await engine.jobs.untilFinal(bad.id, never)).toMatchObject({
    status: "failed",
    failure_reason: "internal",
    retryable: true,
    error: expect.stringMatching(/boom \*\*\*/),
  });
  expect((await engine.jobs.untilFinal(good.id, never)).status).toBe("succeeded");
});

test("a job that waited past its time is expired, by the sweep and at the claim", async () => {
  let clock = new Date("2026-01-01T00:00:00Z");
  const engine = await startEngine({ now: () => clock });
  const { id } = await engine.submit();
  clock = new Date("2026-01-01T00:01:00Z");
  engine.work();
  await until(() => engine.worker.runningCount() === 0);
  expect((await engine.jobs.get(id)).status).toBe("queued");
  await engine.round();
  expect(await engine.jobs.get(id)).toMatchObject({ status: "expired", started_at: null });
});

test("the record of an ended job and its events are deleted when its time is over", async () => {
  let clock = new Date("2026-01-01T00:00:00Z");
  const engine = await startEngine({ now: () => clock });
  const { id } = await engine.submit();
  engine.work();
  await engine.jobs.untilFinal(id, never);
  await engine.round();
  expect((await engine.jobs.get(id)).status).toBe("succeeded");
  clock = new Date("2026-01-01T00:01:01Z");
  await engine.round();
  await expect(engine.jobs.get(id)).rejects.toMatchObject({ code: "job_not_found" });
  const left = [];
  for await (const event of engine.events.read(id, 0, never)) left.push(event);
  expect(left).toEqual([]);
});

test("a warning that somebody else gives a job while it runs stays", async () => {
  const engine = await startEngine({
    execute: async ({ id }, run) => {
      run.warn("first");
      await engine.store.update(id, { status: ["running"] }, ({ warnings }) => ({
        warnings: [...warnings, "another's"],
      }));
      run.warn("last");
      return { kind: "succeeded", patch: {} };
    },
  });
  const { id } = await engine.submit({ repo_url: "https://git.example/acme/app" });
  engine.work();
  const { warnings } = await engine.jobs.untilFinal(id, never);
  expect(warnings).toEqual(["first", "another's", "last"]);
});

test("what is said while a cancelled job's work is saved is among its warnings", async () => {
  const engine = await startEngine({
    execute: async (record, run) => {
      const outcome = await untilInterrupted(record, run);
      run.warn("the worktree is kept");
      return outcome;
    },
  });
  const { id } = await engine.submit({ repo_url: "https://git.example/acme/app" });
  engine.work();
  await until(async () => (await engine.jobs.get(id)).status === "running");
  await engine.jobs.cancel(id);
  const job = await until(async () => {
    const record = await engine.jobs.get(id);
    return record.unsettled ? null : record;
  });
  expect(job).toMatchObject({ status: "cancelled", warnings: ["the worktree is kept"] });
});

test("each end of a job is told once, when nothing of it runs any more", async () => {
  let clock = new Date("2026-01-01T00:00:00Z");
  const engine = await startEngine({
    now: () => clock,
    execute: async (record, run) =>
      record.task === "hang" ? await untilInterrupted(record, run) : await succeed(record, run),
  });
  const [waiting, expired] = [await engine.submit(), await engine.submit()];
  await engine.jobs.cancel(waiting.id);
  clock = new Date("2026-01-01T00:01:01Z");
  await engine.round();
  engine.work();
  const good = await engine.submit({}, { principal: "somebody" });
  await engine.jobs.untilFinal(good.id, never);
  const long = await engine.submit({ task: "hang" });
  await until(async () => (await engine.jobs.get(long.id)).status === "running");
  await engine.jobs.cancel(long.id);
  await until(() => engine.ended.length === 4);
  expect(engine.ended.map(({ id, status, principal }) => [id, status, principal])).toEqual([
    [waiting.id, "cancelled", "open"],
    [expired.id, "expired", "open"],
    [good.id, "succeeded", "somebody"],
    [long.id, "cancelled", "open"],
  ]);
});

test("every job that continues a session waits for the instance that has its worktree, also behind one that waits", async () => {
  const session = randomUUID();
  const engine = await startEngine({
    holder: "pod",
    execute: async () => ({ kind: "succeeded", patch: { session_id: session } }),
  });
  engine.work();
  const first = await engine.submit();
  expect(first.bound_to).toBeNull();
  await engine.jobs.untilFinal(first.id, never);
  engine.queue.pause();
  const second = await engine.submit({ session_id: session });
  const third = await engine.submit({ session_id: session });
  expect([second.bound_to, third.bound_to]).toEqual(["pod", "pod"]);
  expect((await engine.submit()).bound_to).toBeNull();
});

test("a job that resumes a session while its worktree is being removed starts when that is done", async () => {
  const session = randomUUID();
  const happened: string[] = [];
  const removal = Promise.withResolvers<void>();
  const execute: Execute = async (record, run) => {
    happened.push("job");
    await run.record({
      session_id: session,
      worktree_id: record.worktree_id ?? record.id,
      worktree_path: "/w",
    });
    return { kind: "succeeded", patch: {} };
  };
  let clock = Date.now();
  const engine = await startEngine({
    execute,
    now: () => new Date(clock),
    removeWorktree: async () => {
      happened.push("removal");
      await removal.promise;
      happened.push("removed");
    },
  });
  engine.work();
  const first = await engine.submit();
  await engine.jobs.untilFinal(first.id, never);
  clock += 31_000;
  const round = engine.round();
  await until(() => happened.includes("removal"));
  const second = await engine.submit({ session_id: session });
  const other = await engine.submit();
  await engine.jobs.untilFinal(other.id, never);
  expect((await engine.jobs.get(second.id)).status).toBe("queued");
  removal.resolve();
  await round;
  await engine.jobs.untilFinal(second.id, never);
  expect(happened).toEqual(["job", "removal", "job", "removed", "job"]);
});

test("a job waits for the earlier ones of its session, but for none whose record cannot be read", async () => {
  const session_id = "5a4d7a7e-0b44-4a3c-8a1e-6a5f6d8c2f11";
  const [unreadable, earlier, later] = [
    sampleRecord(),
    sampleRecord({ session_id }),
    sampleRecord({ session_id }),
  ];
  const waiting = [unreadable.id, earlier.id, later.id];
  const deps = {
    store: {
      unsettled: async () => [],
      get: async (id: string) => [earlier, later].find((record) => record.id === id) ?? null,
      usesOfWorktree: async () => [],
      runningInSession: async () => [],
      queuedInSession: async () => waiting,
    },
    locks: createLocalLocks(),
    settings: { lostInstanceGrace: 300 },
    now: () => new Date(),
  };
  const claim = async (): Promise<"claimed"> => "claimed";
  expect(await claimIfFree(deps, later, claim)).toBe("later");
  expect(await claimIfFree(deps, earlier, claim)).toBe("claimed");
});
