import { randomUUID } from "node:crypto";
import { Redis } from "ioredis";
import { beforeAll, expect, test } from "vitest";
import {
  createdAt,
  end,
  eventLogSuite,
  follow,
  never,
  text,
  texts,
  upTo,
  type KnownJobs,
} from "../../test/ports/event-log-suite.ts";
import { instancesSuite } from "../../test/ports/instances-suite.ts";
import { locksSuite } from "../../test/ports/locks-suite.ts";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedisCluster } from "../../test/redis-cluster.ts";
import { createRedisNotifier } from "../kv/redis-notifier.ts";
import { createLog } from "../lib/log.ts";
import { identify } from "../lib/process/identity.ts";
import { createEventLog, eventLogName } from "./event-log.ts";
import { createRedisLogs } from "./redis-logs.ts";
import { createRedisInstances } from "./instances.ts";
import { createRedisLocks } from "./redis-leases.ts";

let cluster: Awaited<ReturnType<typeof startRedisCluster>>;

beforeAll(async () => {
  cluster = await startRedisCluster();
  for (const { port } of cluster.nodes) {
    const client = new Redis({ port, host: "127.0.0.1" });
    // What was acknowledged is on disk: otherwise a killed node may forget its last second, rightly.
    await client.config("SET", "appendfsync", "always");
    client.disconnect();
  }
});

const silent = createLog("silent", (line) => line);
const newPrefix = (): string => `test-${randomUUID()}`;

const openLog = async (prefix: string, jobs: KnownJobs, maxBytes = 10_000_000) => {
  const kv = await openKv(cluster.url, prefix);
  const notifier = createRedisNotifier({ kv, log: silent });
  const log = createEventLog({
    logs: createRedisLogs({ kv, notifier, name: eventLogName, maxEntries: 1e9 }),
    maxBytes,
    ttlSeconds: 3600,
    describe: async (jobId) => jobs.get(jobId) ?? null,
    log: silent,
    now: () => new Date(0),
  });
  afterFile(() => log.close());
  return log;
};

eventLogSuite("Redis Cluster", {
  open: async ({ maxBytes }) => {
    const prefix = newPrefix();
    const jobs: KnownJobs = new Map();
    const open = () => openLog(prefix, jobs, maxBytes);
    return { log: await open(), jobs, reopen: open };
  },
});

const openInstances = async (prefix: string, name: string) => {
  const kv = await openKv(cluster.url, prefix);
  const self = await identify(process.pid);
  return createRedisInstances({ kv, name, self, leaseSeconds: 30, log: silent });
};

instancesSuite("Redis Cluster", { open: (name) => openInstances(newPrefix(), name) });

locksSuite("Redis Cluster", {
  open: async () => {
    const prefix = newPrefix();
    const open = async () => {
      const locks = createRedisLocks({
        kv: await openKv(cluster.url, prefix),
        leaseSeconds: 30,
        owner: { podName: "pod", epoch: "1" },
      });
      afterFile(() => locks.close());
      return locks;
    };
    return [await open(), await open()];
  },
});

test("in a Cluster events and notifications continue after each of its nodes was restarted", async () => {
  const prefix = newPrefix();
  const ids = Array.from({ length: 10 }, () => randomUUID());
  const jobs: KnownJobs = new Map(ids.map((id) => [id, { createdAt, over: false }]));
  const [a, b] = [await openLog(prefix, jobs), await openLog(prefix, jobs)];
  const readers = ids.map((id) => follow(b.read(id, 0, never)));
  for (const [n, node] of cluster.nodes.entries()) {
    for (const id of ids) a.append(id, 1, text(`${n} before`));
    await node.restart();
    for (const id of ids) a.append(id, 1, text(`${n} after`));
  }
  for (const id of ids) await end(a, id);
  for (const { seen, ended } of readers) {
    await ended;
    const said = [0, 1, 2].flatMap((n) => [`${n} before`, `${n} after`]);
    expect(texts(seen)).toEqual([null, ...said, null]);
    expect(seen.map((event) => event.seq)).toEqual(upTo(8));
  }
});
