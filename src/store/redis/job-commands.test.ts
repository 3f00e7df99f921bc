import { expect, test } from "vitest";
import { openKv } from "../../../test/kv.ts";
import { sampleRecord } from "../../../test/ports/job-record-sample.ts";
import { startRedis } from "../../../test/redis.ts";
import { createLog } from "../../lib/log.ts";
import { openRedisJobStore } from "./redis-job-store.ts";

/** A store on a server of its own, and how often that was given a command. */
const alone = async () => {
  const kv = await openKv((await startRedis()).url);
  const calls = async (command: string): Promise<number> => {
    const stats = await kv.client.info("commandstats");
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  };
  const log = createLog("silent", (text) => text);
  return { calls, store: openRedisJobStore({ kv, podName: "pod", log }) };
};

test("creating a job is one command, and so is each change that the same instance makes after it", async () => {
  const { calls, store } = await alone();
  const record = sampleRecord();
  await store.create(sampleRecord());
  await store.update((await store.ids("queued"))[0] ?? "", { status: ["queued"] }, { pid: 1 });
  const before = { evaluations: await calls("evalsha"), reads: await calls("hmget") };
  await store.create(record);
  await store.update(record.id, { status: ["queued"] }, { status: "running", attempt: 1 });
  await store.update(record.id, { status: ["running"] }, { status: "failed", ended_at: record.created_at });
  expect({ evaluations: await calls("evalsha"), reads: await calls("hmget") }).toEqual({
    evaluations: before.evaluations + 3,
    reads: before.reads,
  });
});

test("lazy changes that wait for one under way are written together", async () => {
  const { calls, store } = await alone();
  const record = sampleRecord();
  await store.create(record);
  const guard = { status: ["queued" as const] };
  const before = await calls("evalsha");
  await Promise.all([
    store.update(record.id, guard, { pid: 1 }),
    ...Array.from({ length: 20 }, (_, n) =>
      store.update(record.id, guard, { warnings: [`${n}`] }, { lazy: true }),
    ),
  ]);
  expect(await calls("evalsha")).toBe(before + 2);
  expect((await store.get(record.id))?.warnings).toEqual(["19"]);
});
