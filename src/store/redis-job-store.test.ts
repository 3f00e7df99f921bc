import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { jobStoreSuite } from "../../test/ports/job-store-suite.ts";
import { kvPairs, openKv } from "../../test/kv.ts";
import type { Kv } from "../kv/kv.ts";
import { redisKinds } from "../../test/redis-kinds.ts";
import { startRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import { openRedisJobStore } from "../../test/open-stores.ts";

const silent = createLog("silent", (text) => text);
const everything = { limit: 100, status: "", cursor: "" } as const;

/** Two on an empty store. */
const instances = kvPairs();
const storeOn = (kv: Kv, podName: string, log = silent) => openRedisJobStore({ kv, podName, log });

const pair = async (url: () => Promise<string>) => {
  const [kv, other] = await instances(url);
  return { kv, a: storeOn(kv, "a"), b: storeOn(other, "b") };
};

const settledFailure = (over: object = {}) =>
  sampleRecord({ status: "failed", ended_at: "2026-01-01T00:00:05.000Z", ...over });

const kinds = redisKinds();

for (const [kind, url] of kinds) {
  jobStoreSuite(kind, {
    open: async () => {
      const [a, b] = await instances(url);
      return { store: storeOn(a, "pod"), reopen: async () => storeOn(b, "pod") };
    },
  });
}

describe.each(kinds)("two instances on a %s", (_kind, url) => {
  test("each sees the other's writes at once, also of jobs that it has written itself", async () => {
    const { a, b } = await pair(url);
    const record = sampleRecord();
    await a.create(record);
    await a.update(record.id, { status: ["queued"] }, { task: "by a" });
    await b.update(record.id, { status: ["queued"] }, { status: "running", attempt: 1 });
    expect(await a.update(record.id, { status: ["running"] }, { pid: 2 })).toMatchObject({ attempt: 1 });
    expect(await a.get(record.id)).toMatchObject({ status: "running", task: "by a" });
    expect(await a.update(record.id, { status: ["queued"] }, { task: "too late" })).toBeNull();
    expect(await a.update(record.id, { status: ["running"] }, { branch: "by a" })).toMatchObject({
      attempt: 1,
    });
    expect(await b.update(record.id, { status: ["running"] }, { pid: 1 })).toMatchObject({ branch: "by a" });
    await a.update(
      record.id,
      { status: ["running"] },
      { status: "failed", ended_at: new Date().toISOString() },
    );
    await b.remove(record.id);
    expect(await a.get(record.id)).toBeNull();
    expect(await a.update(record.id, { status: ["failed"] }, { error: "too late" })).toBeNull();
    expect((await a.list(everything)).records).toEqual([]);
  });

  test("exactly one of several writers on both wins a transition, and the others leave nothing", async () => {
    const { kv, a, b } = await pair(url);
    const record = sampleRecord();
    await a.create(record);
    const wins = await Promise.all(
      Array.from({ length: 100 }, (_, n) =>
        (n % 2 === 0 ? a : b).update(
          record.id,
          { status: ["queued"], attempt: 0 },
          { status: "running", attempt: 1, pid: n, unsettled: true, instance_epoch: `e${n}` },
        ),
      ),
    );
    const winners = wins.filter((win) => win !== null);
    expect(winners).toHaveLength(1);
    expect(await b.get(record.id)).toEqual(winners[0]);
    expect(await kv.client.zcard(kv.jobKey("st:queued"))).toBe(0);
    expect(await a.unsettled()).toEqual([
      { id: record.id, podName: "", epoch: winners[0]?.instance_epoch ?? "", keptUntil: null },
    ]);
  });

  test("concurrent changes by both all apply", async () => {
    const { a, b } = await pair(url);
    const record = sampleRecord();
    await a.create(record);
    const more = ({ attempt }: { attempt: number }) => ({ attempt: attempt + 1 });
    await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        (n % 2 === 0 ? a : b).update(record.id, { status: ["queued"] }, more),
      ),
    );
    expect(await b.get(record.id)).toMatchObject({ attempt: 40 });
  });

  test("two hundred jobs submitted to both with one key each are two hundred jobs", async () => {
    const { a, b } = await pair(url);
    const submitted = await Promise.all(
      Array.from({ length: 200 }, async (_, n) => {
        const answers = await Promise.all(
          [a, b].map((to, m) => {
            // No two begin alike, which would be refused.
            const id = `${(2 * n + m).toString(16).padStart(8, "0")}${randomUUID().slice(8)}`;
            return to.create(sampleRecord({ id, idempotency: { key: `key-${n}`, body: "b" } }));
          }),
        );
        return answers.map((answer) => ("refused" in answer ? "refused" : answer.record.id));
      }),
    );
    expect(submitted.filter(([one, other]) => one !== other)).toEqual([]);
    expect(new Set(submitted.flat()).size).toBe(200);
    expect((await a.counts()).queued).toBe(200);
  });

  test("each lists only worktrees on its own disk", async () => {
    const { a, b } = await pair(url);
    const [onA, onB] = ["a", "b"].map((pod) => settledFailure({ worktree_path: "/w", pod_name: pod }));
    await a.create(onA ?? sampleRecord());
    await a.create(onB ?? sampleRecord());
    expect(await a.due("worktrees", Date.now())).toEqual([onA?.id]);
    expect(await b.due("worktrees", Date.now())).toEqual([onB?.id]);
  });

  test("both share the counters", async () => {
    const { a, b } = await pair(url);
    await Promise.all([a.count("lost"), b.count("lost"), b.count("recovered")]);
    expect(await a.tally()).toEqual({ lost: 2, recovered: 1 });
  });

  test("an output has a key of its own, expires by itself, and is deleted with the job", async () => {
    const { kv, a, b } = await pair(url);
    const record = sampleRecord({ status: "running", ttl_seconds: 1000 });
    await a.create(record);
    const ended_at = "2026-01-01T00:00:05.000Z";
    const output = "x".repeat(50_000);
    await a.update(record.id, { status: ["running"] }, { status: "failed", ended_at, output });
    expect((await b.get(record.id))?.output).toBe(output);
    const stored = await kv.client.hgetall(kv.jobKey("job", record.id));
    const key = stored["output"] ?? "";
    expect(stored["json"]).not.toContain("xxx");
    expect(key).toContain(kv.key("out", record.id));
    expect(await kv.client.ttl(key)).toBeGreaterThan(1000);
    await b.update(record.id, { status: ["failed"] }, { error: "e" });
    expect((await a.get(record.id))?.output).toBe(output);
    await b.remove(record.id);
    await until(async () => (await kv.client.exists(key)) === 0, { what: "the output to be gone" });
  });

  test("a short output is in its record, a longer one has a key of its own", async () => {
    const { kv, a, b } = await pair(url);
    const record = sampleRecord({ status: "running" });
    await a.create(record);
    for (const [length, apart] of [
      [1022, false],
      [1023, true],
      [5, false],
    ] as const) {
      const output = "x".repeat(length);
      await a.update(record.id, { status: ["running"] }, { output });
      expect((await a.get(record.id))?.output).toBe(output);
      expect((await b.get(record.id))?.output).toBe(output);
      const stored = await kv.client.hgetall(kv.jobKey("job", record.id));
      expect(stored["output"] !== "").toBe(apart);
      expect(stored["json"]?.includes("xxxxx")).toBe(!apart);
    }
  });

  test("a deleted job leaves only the keys of the service", async () => {
    const { kv, a } = await pair(url);
    const over = { session_id: randomUUID(), worktree_id: randomUUID(), worktree_path: "/w", pod_name: "a" };
    const record = settledFailure({ ...over, output: "o", idempotency: { key: "k", body: "b" } });
    await a.create(record);
    await a.remove(record.id);
    const nodes = "nodes" in kv.client ? kv.client.nodes("master") : [kv.client];
    const keys = async () => (await Promise.all(nodes.map((node) => node.keys(`*${kv.prefix}*`)))).flat();
    await until(async () => (await keys()).length === 0, { what: "all keys to be gone" });
  });
});

test("a value that is no job is skipped with one warning, and lists work", async () => {
  const kv = await openKv((await startRedis()).url);
  const lines: string[] = [];
  const log = createLog("info", (line) => (lines.push(line), ""));
  const store = storeOn(kv, "pod", log);
  const good = sampleRecord();
  await store.create(good);
  const bad = [
    { json: JSON.stringify(sampleRecord()).slice(0, 300), rev: "1" },
    { json: "", rev: "1" },
    { rev: "1" },
    { json: "null", rev: "1" },
    { json: JSON.stringify({ ...sampleRecord(), status: "odd" }), rev: "1" },
    { json: JSON.stringify(sampleRecord()), rev: "1" },
  ].map((fields) => ({ id: randomUUID(), fields }));
  for (const { id, fields } of bad) {
    await kv.client.hset(kv.jobKey("job", id), fields);
    for (const key of ["all", "st:queued"]) await kv.client.zadd(kv.jobKey(key), 0, `1767225600000_${id}`);
  }
  for (let time = 0; time < 2; time += 1) expect((await store.list(everything)).records).toEqual([good]);
  for (const { id } of bad) {
    expect(await store.update(id, { status: ["queued"] }, { task: "x" })).toBeNull();
    await store.remove(id);
    expect(lines.filter((line) => line.includes(id))).toHaveLength(1);
  }
});

test("every call fails with store_unavailable while the store is unreachable, malformed and huge ids are answered without it, and all works again when it is back", async () => {
  const redis = await startRedis();
  const kv = await openKv(redis.url);
  const store = storeOn(kv, "pod");
  const record = sampleRecord();
  await store.create(record);
  await redis.kill();
  for (const id of ["", "..", "x".repeat(100_000), "\u0000"]) {
    expect(await store.get(id)).toBeNull();
    expect(await store.update(id, { status: ["queued"] }, {})).toBeNull();
    expect(await store.usesOfWorktree(id)).toEqual([]);
  }
  const asked: (() => Promise<unknown>)[] = [
    () => store.create(sampleRecord()),
    () => store.get(record.id),
    () => store.list(everything),
    () => store.update(record.id, { status: ["queued"] }, { task: "x" }),
    () => store.remove(record.id),
    () => store.counts(),
    () => store.usesOfWorktree(record.id),
    () => store.due("removable", 0),
    () => store.count("lost"),
    () => store.tally(),
    () => store.check(),
  ];
  for (const ask of asked) await expect(ask()).rejects.toMatchObject({ code: "store_unavailable" });
  await redis.restart();
  await until(() => store.check().then(() => true), { what: "the store to be back" });
  // The scripts are unknown to the new process.
  expect(await store.update(record.id, { status: ["queued"] }, { task: "x" })).toMatchObject({ task: "x" });
});
