import type { Cluster } from "ioredis";
import { expect, test } from "vitest";
import { openKv } from "../../test/kv.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { startRedis } from "../../test/redis.ts";
import type { KvClient } from "../kv/kv.ts";
import { createLog } from "../lib/log.ts";
import { openRedisJobStore } from "../../test/open-stores.ts";

/** Sends each script twice, as the client of a Cluster does when the connection breaks before the reply. */
const sentTwice = (client: KvClient): KvClient =>
  new Proxy(client, {
    get: (target, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      if (name !== "evalsha" && name !== "eval") return value.bind(target) as unknown;
      return async (...args: unknown[]) => {
        await (value as Cluster["evalsha"]).apply(target as Cluster, args as never);
        return await (value as Cluster["evalsha"]).apply(target as Cluster, args as never);
      };
    },
  });

test("a job that is created, changed and removed by repeated scripts is one job, changed once", async () => {
  const redis = await startRedis();
  const kv = await openKv(redis.url);
  const client = sentTwice(kv.client);
  const store = openRedisJobStore({
    kv: { ...kv, client, ask: (work) => kv.ask(() => work(client)) },
    podName: "pod",
    log: createLog("silent", (text) => text),
  });
  const record = sampleRecord();
  expect(await store.create(record, { maxQueued: 1 })).toEqual({ record, created: true });
  const running = await store.update(record.id, { status: ["queued"] }, { status: "running", attempt: 1 });
  expect(running).toMatchObject({ status: "running", attempt: 1 });
  expect(await store.counts()).toMatchObject({ queued: 0, running: 1 });
  await store.update(record.id, { status: ["running"] }, { status: "failed", ended_at: record.created_at });
  await store.remove(record.id);
  expect(await store.get(record.id)).toBeNull();
  expect((await store.list({ limit: 10, status: "", cursor: "" })).records).toEqual([]);
});
