import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { createRedisLocks } from "./redis-leases.ts";

let redis: TestRedis;

beforeAll(async () => {
  // What was acknowledged is on disk: otherwise a killed server may forget its last second, rightly.
  redis = await startRedis({ args: ["--appendfsync", "always"] });
});

const openInstance = async (prefix: string, leaseSeconds = 30, podName: string = randomUUID()) => {
  const kv = await openKv(redis.url, prefix);
  const locks = createRedisLocks({ kv, leaseSeconds, owner: { podName, epoch: randomUUID() } });
  afterFile(() => locks.close());
  return { kv, locks };
};

const openTwo = async (leaseSeconds?: number) => {
  const prefix = `test-${randomUUID()}`;
  return { a: await openInstance(prefix, leaseSeconds), b: await openInstance(prefix, leaseSeconds) };
};

test("a lock is renewed until its release, and not lost", async () => {
  const { a, b } = await openTwo(1);
  const lock = await a.locks.take("x");
  const key = a.kv.jobKey("lock", "x");
  let renewals = 0;
  let before = await a.kv.client.pttl(key);
  await until(async () => {
    const left = await a.kv.client.pttl(key);
    if (left > before) renewals += 1;
    before = left;
    return renewals >= 5;
  });
  expect(await b.locks.take("x")).toBeNull();
  expect(lock?.lost.aborted).toBe(false);
});

test("the lock of a stopped instance expires", async () => {
  const { a, b } = await openTwo(1);
  const lock = await a.locks.take("x");
  await a.kv.close();
  const next = await until(() => b.locks.take("x"));
  expect(next.lost.aborted).toBe(false);
  await until(() => lock?.lost.aborted);
});

test("a holder whose lock another has, or nobody, is notified, and does not take or free it", async () => {
  const { a } = await openTwo(2);
  const { client, jobKey } = a.kv;
  const [taken, missing, released] = [
    await a.locks.take("x"),
    await a.locks.take("y"),
    await a.locks.take("z"),
  ];
  for (const name of ["x", "z"]) await client.set(jobKey("lock", name), "somebody else");
  await client.del(jobKey("lock", "y"));
  await released?.release();
  await until(() => taken?.lost.aborted === true && missing?.lost.aborted === true);
  await taken?.release();
  for (const name of ["x", "z"]) expect(await client.get(jobKey("lock", name))).toBe("somebody else");
});

test("a lock outlives cut connections and a restart of the store within its lease", async () => {
  const { a, b } = await openTwo(10);
  const lock = await a.locks.take("x");
  await a.kv.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no").catch(() => undefined);
  await redis.restart();
  await until(() => a.kv.check().then(() => true));
  const key = a.kv.jobKey("lock", "x");
  const before = await a.kv.client.pttl(key);
  await until(async () => (await a.kv.client.pttl(key)) > before);
  expect(lock?.lost.aborted).toBe(false);
  expect(await until(() => b.kv.check().then(() => true)).then(() => b.locks.take("x"))).toBeNull();
});

test("while the store hangs, a lock is lost when its lease expires, no lock can be taken, and releases do not block", async () => {
  const { a } = await openTwo(1);
  const lock = await a.locks.take("x");
  redis.freeze();
  try {
    await until(() => lock?.lost.aborted);
    await expect(a.locks.take("y")).rejects.toThrow(ServiceError);
    await lock?.release();
  } finally {
    redis.thaw();
  }
  await until(() => a.kv.check().then(() => true));
  expect(await until(() => a.locks.take("y"))).not.toBeNull();
});

test("a lock of an earlier start of the same instance is free for the next start only", async () => {
  const prefix = `test-${randomUUID()}`;
  const earlier = await openInstance(prefix, 30, "pod-1");
  const lock = await earlier.locks.take("x");
  const other = await openInstance(prefix, 30, "pod-10");
  expect(await other.locks.take("x")).toBeNull();
  const next = await openInstance(prefix, 30, "pod-1");
  expect(await next.locks.take("x")).not.toBeNull();
  expect(await next.locks.take("x")).toBeNull();
  await lock?.release();
  expect(await other.locks.take("x")).toBeNull();
});
