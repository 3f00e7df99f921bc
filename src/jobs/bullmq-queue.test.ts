import { beforeAll, expect, test } from "vitest";
import { openKv } from "../../test/kv.ts";
import { anywhere, handWork, here, queueSuite } from "../../test/ports/queue-suite.ts";
import { startRedisCluster } from "../../test/redis-cluster.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { another, countsOf, ids, openOn } from "./bullmq-queue.fixture.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});

queueSuite("BullMQ", {
  open: async ({ concurrency }) => openOn({ kv: await openKv(redis.url), concurrency }),
});

test("no key stays of the queue of an instance that never comes back", async () => {
  const kv = await openKv(redis.url);
  const { queue } = openOn({ kv });
  const { handed, work, end } = handWork();
  const gone = await another(kv, redis.url, { podName: "a:{b} gone" });
  gone.queue.start(work);
  await gone.queue.add({ id: "job-1", boundTo: "a:{b} gone" });
  await until(() => handed.length === 1, { what: "the job to be handed out" });
  end("job-1");
  await gone.queue.add({ id: "job-2", boundTo: "a:{b} gone" });
  await gone.queue.close();
  const keys = (pod: string) => kv.client.keys(`{${kv.prefix}:q}:jobs.${pod}*`);
  expect((await keys("a")).length).toBeGreaterThan(2);
  // It was used more than a day ago.
  await kv.client.zincrby(`${kv.prefix}:queues`, -90_000_000, "a:{b} gone");
  await queue.add({ id: "job-3", boundTo: here });
  expect(await keys("a")).toEqual([]);
  expect((await keys(here)).length).toBeGreaterThan(0);
});

test("bound ids go to their instance only, whoever adds them, and wait for it", async () => {
  const kv = await openKv(redis.url);
  const one = openOn({ kv });
  const two = await another(kv, redis.url, { podName: "a:{b} c" });
  const first = handWork();
  one.queue.start(first.work);
  await one.queue.add(anywhere("a"));
  await until(() => first.running.has("a"));
  await one.queue.add(anywhere("b"), { id: "c", boundTo: "a:{b} c" }, { id: "d", boundTo: here });
  first.end("a");
  for (const at of [1, 2]) {
    await until(() => first.handed.length === at + 1);
    first.end(first.handed[at] ?? "");
  }
  const second = handWork();
  two.queue.start(second.work);
  await until(() => second.running.has("c"));
  second.end("c");
  await two.queue.add({ id: "e", boundTo: here });
  await until(() => first.running.has("e"));
  first.end("e");
  expect([first.handed.toSorted(), second.handed]).toEqual([["a", "b", "d", "e"], ["c"]]);
});

test("a bound id is removed by another instance", async () => {
  const kv = await openKv(redis.url);
  const one = openOn({ kv });
  const two = await another(kv, redis.url);
  const { work, handed } = handWork();
  await one.queue.add({ id: "a", boundTo: "another" });
  await one.queue.remove({ id: "a", boundTo: "another" });
  await one.queue.add({ id: "b", boundTo: "another" });
  two.queue.start(work);
  await until(() => handed.length > 0);
  expect(handed).toEqual(["b"]);
});

test("what is worked on is handed to nobody else however long it lasts", async () => {
  const kv = await openKv(redis.url);
  const one = openOn({ kv, lockSeconds: 1 });
  const two = await another(kv, redis.url, { lockSeconds: 1 });
  const first = handWork();
  const second = handWork();
  one.queue.start(first.work);
  await one.queue.add(anywhere("a"));
  await until(() => first.running.has("a"));
  two.queue.start(second.work);
  // Several times as long as its lock lasts.
  await new Promise((resolve) => setTimeout(resolve, 2500));
  expect(second.handed).toEqual([]);
  first.end("a");
});

test("an id that rests on an instance that drains goes to another", async () => {
  const kv = await openKv(redis.url);
  const one = openOn({ kv });
  const two = await another(kv, redis.url);
  const first = handWork();
  const second = handWork();
  one.queue.start(first.work);
  await one.queue.add(anywhere("a"));
  await until(() => first.running.has("a"));
  two.queue.start(second.work);
  one.queue.pause();
  first.end("a", "later");
  await until(() => second.running.has("a"));
  second.end("a");
});

test("hundreds that have to wait neither keep others from their turn nor spin", async () => {
  const kv = await openKv(redis.url);
  const { queue } = openOn({ kv, concurrency: 3 });
  const seen = new Set<string>();
  let looks = 0;
  queue.start(async (id) => {
    looks += 1;
    seen.add(id);
    return id.startsWith("late") ? "done" : "later";
  });
  await queue.add(...ids(400).map(anywhere));
  await until(() => seen.size === 400);
  const [begun, before] = [performance.now(), looks];
  for (let n = 0; n < 2; n += 1) {
    const ahead = looks;
    await queue.add(anywhere(`late-${n}`));
    await until(() => seen.has(`late-${n}`));
    // Those that are due by then go before it, not all.
    expect(looks - ahead).toBeLessThan(400);
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  const perSecond = ((looks - before) / (performance.now() - begun)) * 1000;
  expect(perSecond).toBeGreaterThan(10);
  expect(perSecond).toBeLessThan(150);
});

test("it works on a Cluster", async () => {
  const { url } = await startRedisCluster();
  const kv = await openKv(url);
  const { queue } = openOn({ kv, concurrency: 3, lockSeconds: 1 });
  const two = openOn({ kv: await openKv(url, kv.prefix), podName: "another", lockSeconds: 1 });
  const { work, handed, running, end } = handWork();
  await two.queue.add(...ids(20).map(anywhere), { id: "bound", boundTo: here });
  await queue.add(anywhere("more"), anywhere("more"), anywhere("removed"));
  await two.queue.remove(anywhere("removed"));
  queue.start(work);
  await until(() => running.size === 3);
  end("job-0", "later");
  await until(() => {
    for (const id of running.keys()) end(id);
    return handed.length === 23;
  });
  expect(new Set(handed)).toEqual(new Set(["bound", "more", ...ids(20)]));
});

test("a closed queue has given back what rested and leaves the connection as it was", async () => {
  const kv = await openKv(redis.url);
  const listeners = (["error", "close", "ready"] as const).map((name) => kv.client.listenerCount(name));
  const { queue } = openOn({ kv });
  const { work, running, end } = handWork();
  queue.start(work);
  await queue.add(anywhere("a"));
  await until(() => running.has("a"));
  end("a", "later");
  await queue.close();
  expect(await countsOf(kv)).toMatchObject({ wait: 1, active: 0, delayed: 0 });
  expect((["error", "close", "ready"] as const).map((name) => kv.client.listenerCount(name))).toEqual(
    listeners,
  );
  expect(await kv.client.ping()).toBe("PONG");
});
