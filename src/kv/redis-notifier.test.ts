import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import { missed } from "../lib/notifier.ts";
import { createRedisNotifier } from "./redis-notifier.ts";

let redis: TestRedis;

beforeAll(async () => {
  redis = await startRedis();
});

const never = new AbortController().signal;

const openNotifier = async (prefix: string) => {
  const kv = await openKv(redis.url, prefix);
  const notifier = createRedisNotifier({ kv, log: createLog("silent", (line) => line) });
  afterFile(() => notifier.close());
  return { kv, notifier };
};

/** How many connections are subscribed to the channel. */
const subscribers = async ({ kv }: { kv: Awaited<ReturnType<typeof openKv>> }): Promise<number> =>
  Number(((await kv.client.call("PUBSUB", "NUMSUB", kv.key("bell"))) as unknown[])[1]);

test("a notification reaches the other instance, and only those who wait for its name", async () => {
  const prefix = `test-${randomUUID()}`;
  const [a, b] = [await openNotifier(prefix), await openNotifier(prefix)];
  await until(async () => (await subscribers(a)) === 2);
  const order: string[] = [];
  const waits = ["with: colons and späße", "other"].map((name) =>
    b.notifier.waitFor(name, never).then(() => order.push(name)),
  );
  a.notifier.notify("with: colons and späße");
  await Promise.all(waits);
  // The other name was not notified: its wait ended by the time limit.
  expect(order).toEqual(["with: colons and späße", "other"]);
});

test("while the store is away a notification reaches its own instance and no wait lasts for ever; afterwards they arrive again, and who listens hears that some may be lost", async () => {
  const prefix = `test-${randomUUID()}`;
  const [a, b] = [await openNotifier(prefix), await openNotifier(prefix)];
  await until(async () => (await subscribers(a)) === 2);
  const heard: string[] = [];
  b.notifier.listen((name) => heard.push(name));
  a.notifier.notify("changed");
  await until(() => heard.includes("changed"));
  await redis.kill();
  const order: string[] = [];
  const waits = ["not notified", "x"].map((name) =>
    a.notifier.waitFor(name, never).then(() => order.push(name)),
  );
  a.notifier.notify("x");
  await Promise.all(waits);
  expect(order).toEqual(["x", "not notified"]);
  await redis.restart();
  await until(() => heard.includes(missed));
  await until(async () => (await subscribers(a)) === 2);
  a.notifier.notify("again");
  await until(() => heard.includes("again"));
});

test("a store that refuses to pass notifications on fails nothing: waits end by the time limit", async () => {
  const a = await openNotifier(`test-${randomUUID()}`);
  await until(async () => (await subscribers(a)) === 1);
  await a.kv.client.call("ACL", "SETUSER", "default", "-subscribe", "-publish");
  await a.kv.client.call("CLIENT", "KILL", "TYPE", "pubsub");
  await a.notifier.waitFor("x", never);
  a.notifier.notify("x");
  await a.kv.check();
  expect(await subscribers(a)).toBe(0);
  await a.kv.client.call("ACL", "SETUSER", "default", "+subscribe", "+publish");
});
