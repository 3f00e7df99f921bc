import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import { createRedisNotifier } from "./redis-notifier.ts";

let redis: TestRedis;

beforeAll(async () => {
  redis = await startRedis();
});

const never = new AbortController().signal;

const openBell = async (prefix: string) => {
  const kv = await openKv(redis.url, prefix);
  const notifier = createRedisNotifier({ kv, log: createLog("silent", (line) => line) });
  afterFile(() => notifier.close());
  return { kv, notifier };
};

/** How many connections listen to the channel. */
const listeners = async ({ kv }: { kv: Awaited<ReturnType<typeof openKv>> }): Promise<number> =>
  Number(((await kv.client.call("PUBSUB", "NUMSUB", kv.key("bell"))) as unknown[])[1]);

test("a ring is heard on the other instance, and by nobody who waits for another name", async () => {
  const prefix = `test-${randomUUID()}`;
  const [a, b] = [await openBell(prefix), await openBell(prefix)];
  await until(async () => (await listeners(a)) === 2);
  const order: string[] = [];
  const waits = ["with: colons and späße", "other"].map((name) =>
    b.notifier.waitFor(name, never).then(() => order.push(name)),
  );
  a.notifier.notify("with: colons and späße");
  await Promise.all(waits);
  // Nobody rang for the other: it went on when its time was over.
  expect(order).toEqual(["with: colons and späße", "other"]);
});

test("rings are heard again after the connections were cut, and nobody waits for ever for one that was lost", async () => {
  const a = await openBell(`test-${randomUUID()}`);
  await until(async () => (await listeners(a)) === 1);
  await redis.kill();
  a.notifier.notify("into the void");
  await a.notifier.waitFor("x", never);
  await redis.restart();
  await until(async () => (await listeners(a)) === 1);
});

test("a ring is heard on its own instance although the store is away", async () => {
  const a = await openBell(`test-${randomUUID()}`);
  await redis.kill();
  const order: string[] = [];
  const waits = ["unheard", "x"].map((name) => a.notifier.waitFor(name, never).then(() => order.push(name)));
  a.notifier.notify("x");
  await Promise.all(waits);
  expect(order).toEqual(["x", "unheard"]);
  await redis.restart();
});

test("where the store refuses to pass rings on, nothing fails: who waits goes on when the time is over", async () => {
  const a = await openBell(`test-${randomUUID()}`);
  await until(async () => (await listeners(a)) === 1);
  await a.kv.client.call("ACL", "SETUSER", "default", "-subscribe", "-publish");
  await a.kv.client.call("CLIENT", "KILL", "TYPE", "pubsub");
  await a.notifier.waitFor("x", never);
  a.notifier.notify("x");
  await a.kv.check();
  expect(await listeners(a)).toBe(0);
  await a.kv.client.call("ACL", "SETUSER", "default", "+subscribe", "+publish");
});
