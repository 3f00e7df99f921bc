import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import type { JobRecord } from "../../src/store/job-record.ts";
import type { JobStore } from "../../src/store/job-store.ts";
import { at, ended, sampleRecord } from "./job-record-sample.ts";

export type OpenJobStore = () => Promise<{ store: JobStore; reopen: () => Promise<JobStore> }>;

/** The part of the suite about sweeps, limits and instances. */
export const jobStoreSweepTests = (open: OpenJobStore): void => {
  test("queued jobs and settled final jobs are due past their TTL", async () => {
    const { store } = await open();
    const waiting = sampleRecord({ created_at: at(0), ttl_seconds: 10 });
    const old = ended({ ended_at: at(0), ttl_seconds: 10 });
    const unsettled = ended({ ended_at: at(0), ttl_seconds: 10, unsettled: true });
    const running = sampleRecord({ status: "running", ttl_seconds: 10 });
    for (const record of [waiting, old, unsettled, running]) await store.create(record);
    const due = async (second: number, skip = 0) => {
      const until = Date.parse(at(second));
      return [await store.due("expired", until, skip), await store.due("removable", until, skip)];
    };
    expect(await due(9)).toEqual([[], []]);
    expect(await due(10)).toEqual([[waiting.id], [old.id]]);
    await store.update(waiting.id, { status: ["queued"] }, { status: "running" });
    await store.update(unsettled.id, { status: ["succeeded"] }, { unsettled: false });
    const [expired, removable] = await due(10);
    expect(expired).toEqual([]);
    expect(removable?.toSorted()).toEqual([old.id, unsettled.id].toSorted());
    expect(await due(10, 1)).toEqual([[], removable?.slice(1)]);
  });

  test("jobs that are parked for a usage limit are listed by its credential until they go on; held ones are due then", async () => {
    const { store, reopen } = await open();
    const parked = (credential: string, second: number): JobRecord => ({
      ...sampleRecord({ status: "running", limit: { credential, waits: 1, since: at(0) } }),
      waiting: {
        kind: "limit",
        id: "limit_1",
        questions: [],
        plan: null,
        asked_at: at(0),
        until: at(second),
      },
    });
    const [late, early, other] = [parked("a", 20), parked("a", 10), parked("b", 30)];
    const held = sampleRecord({ created_at: at(0), ttl_seconds: 10, rested_ms: 15_000 });
    for (const record of [late, early, other, { ...held, held: { reason: "limit" as const, until: at(15) } }])
      await store.create(record);
    const expected = [
      { credential: "a", until: at(10), jobs: 2 },
      { credential: "b", until: at(30), jobs: 1 },
    ];
    for (const each of [store, await reopen()]) {
      expect(await each.limits()).toEqual(expected);
      expect(await each.limitedUntil("a")).toBe(Date.parse(at(10)));
      expect(await each.limitedUntil("c")).toBeNull();
      expect(await each.due("resumable", Date.parse(at(9)))).toEqual([]);
      expect(await each.due("resumable", Date.parse(at(20)))).toEqual([early.id, held.id, late.id]);
      expect(await each.due("expired", Date.parse(at(24)))).toEqual([]);
      expect(await each.due("expired", Date.parse(at(25)))).toEqual([held.id]);
    }
    const now = await reopen();
    await now.update(early.id, { status: ["running"] }, { waiting: null, unsettled: true });
    expect(await now.limitedUntil("a")).toBe(Date.parse(at(20)));
  });

  test("runs that have not been cleaned up are listed with their instance, oldest first", async () => {
    const { store, reopen } = await open();
    const run = (second: number, over: Partial<JobRecord>) =>
      sampleRecord({ created_at: at(second), unsettled: true, ...over });
    const second = run(2, { status: "running", pod_name: "b", instance_epoch: "e2" });
    const first = run(1, { status: "failed", ended_at: at(3), pod_name: "a", instance_epoch: "e1" });
    for (const record of [second, first, sampleRecord()]) await store.create(record);
    const runs = [
      { id: first.id, podName: "a", epoch: "e1", keptUntil: Date.parse(at(3)) + first.ttl_seconds * 1000 },
      { id: second.id, podName: "b", epoch: "e2", keptUntil: null },
    ];
    expect(await store.unsettled()).toEqual(runs);
    await store.close();
    const again = await reopen();
    expect(await again.unsettled()).toEqual(runs);
    await again.update(first.id, { status: ["failed"] }, { unsettled: false });
    await again.update(second.id, { status: ["running"] }, { pod_name: "c", instance_epoch: "e3" });
    expect(await again.unsettled()).toEqual([{ id: second.id, podName: "c", epoch: "e3", keptUntil: null }]);
  });

  test("no more jobs wait than the limit, also concurrently; running ones do not count", async () => {
    const { store } = await open();
    const [first] = [sampleRecord()];
    await store.create(first);
    const limits = { maxQueued: 5 };
    const answers = await Promise.all(Array.from({ length: 20 }, () => store.create(sampleRecord(), limits)));
    expect(answers.filter((answer) => "refused" in answer)).toEqual(Array(16).fill({ refused: "full" }));
    expect((await store.counts()).queued).toBe(5);
    await store.update(first.id, { status: ["queued"] }, { status: "running" });
    expect(await store.create(sampleRecord(), limits)).toMatchObject({ created: true });
    expect(await store.create(sampleRecord(), limits)).toEqual({ refused: "full" });
  });

  test("a known idempotency key is answered also when the queue is full", async () => {
    const { store } = await open();
    const first = sampleRecord({ idempotency: { key: "k", body: "b" } });
    await store.create(first);
    const again = sampleRecord({ idempotency: { key: "k", body: "b" } });
    expect(await store.create(again, { maxQueued: 1 })).toEqual({ record: first, created: false });
  });

  test("a job whose id begins like another's is refused while that one exists, also concurrently", async () => {
    const { store, reopen } = await open();
    const prefix = "0badcafe";
    const twin = () => sampleRecord({ id: `${prefix}${randomUUID().slice(8)}` });
    const answers = await Promise.all([twin(), twin(), twin()].map((record) => store.create(record)));
    expect(answers.filter((answer) => "refused" in answer)).toEqual(Array(2).fill({ refused: "prefix" }));
    const kept = (await store.list({ limit: 9, status: "", cursor: "" })).records[0];
    await store.close();
    const again = await reopen();
    expect(await again.create(twin())).toEqual({ refused: "prefix" });
    expect(await again.create(sampleRecord({ id: kept?.id ?? "" }))).toEqual({ refused: "prefix" });
    await again.update(kept?.id ?? "", { status: ["queued"] }, { status: "expired", ended_at: at(0) });
    await again.remove(kept?.id ?? "");
    expect(await again.create(twin())).toMatchObject({ created: true });
  });

  test("the oldest ids of a status are listed, up to the limit", async () => {
    const { store } = await open();
    // The second one is from before 2001, by a wrong clock: its number has fewer digits.
    const records = [at(3), "1999-01-01T00:00:00.000Z", at(2)].map((created_at) =>
      sampleRecord({ created_at }),
    );
    for (const record of records) await store.create(record);
    const oldestFirst = [records[1]?.id, records[2]?.id, records[0]?.id];
    expect(await store.ids("queued")).toEqual(oldestFirst);
    expect(await store.ids("queued", 2)).toEqual(oldestFirst.slice(0, 2));
  });

  test("a patch can be made from the current record", async () => {
    const { store } = await open();
    const record = sampleRecord();
    await store.create(record);
    await Promise.all(
      Array.from({ length: 20 }, () =>
        store.update(record.id, { status: ["queued"] }, (current) => ({ attempt: current.attempt + 1 })),
      ),
    );
    expect(await store.get(record.id)).toMatchObject({ attempt: 20 });
  });

  test("worktrees that exist are due when their job has ended before a time and is cleaned up", async () => {
    const { store } = await open();
    const standing = { worktree_path: "/w", pod_name: "pod" };
    const due = ended({ ...standing, ended_at: at(5) });
    const later = ended({ ...standing, ended_at: at(7) });
    const unsettled = ended({ ...standing, ended_at: at(5), unsettled: true });
    const running = sampleRecord({ ...standing, status: "running" });
    for (const record of [due, later, unsettled, running, ended({ ended_at: at(5), pod_name: "pod" })])
      await store.create(record);
    expect(await store.due("worktrees", Date.parse(at(4)))).toEqual([]);
    expect(await store.due("worktrees", Date.parse(at(6)))).toEqual([due.id]);
    await store.update(due.id, { status: ["succeeded"] }, { worktree_removed_at: at(8) });
    expect(await store.due("worktrees", Date.parse(at(6)))).toEqual([]);
  });

  test("lost and recovered jobs are counted", async () => {
    const { store } = await open();
    expect(await store.tally()).toEqual({ lost: 0, recovered: 0 });
    await Promise.all([store.count("lost"), store.count("recovered"), store.count("lost")]);
    expect(await store.tally()).toEqual({ lost: 2, recovered: 1 });
  });

  test("a sequence of lazy and durable changes applies in order", async () => {
    const { store, reopen } = await open();
    const record = sampleRecord();
    await store.create(record);
    const guard = { status: ["queued" as const] };
    const [, , third] = await Promise.all([
      store.update(record.id, guard, { warnings: ["1"] }, { lazy: true }),
      store.update(record.id, guard, { warnings: ["2"], branch: "b" }, { lazy: true }),
      store.update(record.id, guard, { warnings: ["3"], pid: 3 }),
      store.update(record.id, guard, { model: "m", warnings: ["4"] }, { lazy: true }),
      store.update(record.id, { status: ["running"] }, { warnings: ["not this"] }, { lazy: true }),
      store.update(record.id, guard, { commit_sha: "c" }),
    ]);
    expect(third).toMatchObject({ warnings: ["3"], branch: "b", pid: 3 });
    await store.close();
    expect(await (await reopen()).get(record.id)).toMatchObject({
      warnings: ["4"],
      branch: "b",
      pid: 3,
      model: "m",
      commit_sha: "c",
    });
  });

  test("an output is read back exactly, alone and in lists, survives other changes and is deleted with the job", async () => {
    const { store, reopen } = await open();
    const record = sampleRecord({ status: "running", attempt: 1 });
    await store.create(record);
    const output = 'späße \u{1F600} \u0000 \ud800 "quoted"\n';
    await store.update(record.id, { status: ["running"] }, { status: "failed", ended_at: at(1), output });
    await store.update(record.id, { status: ["failed"] }, { error: "e" });
    await store.close();
    const again = await reopen();
    expect(await again.get(record.id)).toMatchObject({ output, error: "e" });
    expect((await again.list({ limit: 9, status: "failed", cursor: "" })).records[0]).toMatchObject({
      output,
    });
    await again.update(record.id, { status: ["failed"] }, { output: "" });
    expect(await again.get(record.id)).toMatchObject({ output: "", error: "e" });
    await again.update(record.id, { status: ["failed"] }, { output: null });
    expect(await again.get(record.id)).toMatchObject({ output: null });
  });
};
