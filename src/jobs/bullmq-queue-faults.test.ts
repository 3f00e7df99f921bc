import { spawn } from "node:child_process";
import { once } from "node:events";
import { Redis } from "ioredis";
import { beforeAll, expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { anywhere, handWork, here } from "../../test/ports/queue-suite.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import type { Kv } from "../kv/kv.ts";
import { ids, openOn, silent } from "./bullmq-queue.fixture.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});

/** A process that takes `id` and dies by SIGKILL while it works on it. */
const dieWorkingOn = async (kv: Kv, id: string, podName: string): Promise<void> => {
  const source = `
    const { connectKv } = await import(${JSON.stringify(new URL("../kv/connect.ts", import.meta.url).href)});
    const { createBullQueue } = await import(${JSON.stringify(new URL("bullmq-queue.ts", import.meta.url).href)});
    const { createBell } = await import(${JSON.stringify(new URL("../lib/bell.ts", import.meta.url).href)});
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const kv = await connectKv({ url: ${JSON.stringify(redis.url)}, prefix: ${JSON.stringify(kv.prefix)}, log });
    const queue = createBullQueue({ kv, bell: createBell(), podName: ${JSON.stringify(podName)}, concurrency: 1,
      lockSeconds: 3, onError() {}, log });
    queue.start((id) => { console.log(id); return new Promise(() => {}); });
    await queue.add({ id: ${JSON.stringify(id)}, boundTo: null });`;
  const child = spawn(process.execPath, ["--input-type=module-typescript", "-e", source], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  afterFile(() => child.kill("SIGKILL"));
  await once(child.stdout, "data");
  child.kill("SIGKILL");
  await once(child, "exit");
};

test("an id that an instance held when it was killed is handed out again", async () => {
  const kv = await openKv(redis.url);
  await dieWorkingOn(kv, "a", "gone");
  const { queue } = openOn({ kv });
  const { work, running, end } = handWork();
  queue.start(work);
  await until(() => running.has("a"));
  end("a");
});

test("an id that a killed instance held can be added once its lock is gone, before anybody has checked", async () => {
  const kv = await openKv(redis.url);
  await dieWorkingOn(kv, "a", "gone");
  const { queue } = openOn({ kv });
  const waiting = async () => await kv.client.lrange(`{${kv.prefix}:q}:jobs:wait`, 0, -1);
  await queue.add(anywhere("a"));
  expect(await waiting()).toEqual([]);
  await until(async () => {
    await queue.add(anywhere("a"));
    return (await waiting()).length === 1;
  });
  const { work, handed, running, end } = handWork();
  queue.start(work);
  await until(() => running.has("a"));
  await queue.add(anywhere("b"));
  end("a");
  await until(() => running.has("b"));
  end("b");
  expect(handed).toEqual(["a", "b"]);
});

test("an instance that comes back under its name takes up at once what it held when it was killed", async () => {
  const kv = await openKv(redis.url);
  await dieWorkingOn(kv, "a", here);
  const { queue } = openOn({ kv, lockSeconds: 3600 });
  const lock = `{${kv.prefix}:q}:jobs:a:lock`;
  await kv.client.pexpire(lock, 3_600_000);
  const { work, running, end } = handWork();
  queue.start(work);
  await until(() => running.has("a"));
  end("a");
});

/** A store of the test's own, an instance that works on it, and what was handed out. */
const aloneWith = async () => {
  const store = await startRedis();
  const kv = await openKv(store.url);
  const { queue, thrown } = openOn({ kv, concurrency: 2, lockSeconds: 3600 });
  const handed: string[] = [];
  queue.start(async (id) => {
    handed.push(id);
    return "done";
  });
  await queue.add(anywhere("before"));
  await until(() => handed.includes("before"));
  return { store, kv, queue, thrown, handed };
};

test("adding and removing while the store is away does not fail, and after its restart all goes on", async () => {
  const { store, kv, queue, handed } = await aloneWith();
  queue.pause();
  await queue.add(...ids(20).map(anywhere));
  queue.resume();
  await store.kill();
  await queue.add(anywhere("away"), { id: "other", boundTo: "another" });
  await queue.remove(anywhere("away"));
  await store.restart();
  await until(() => ids(20).every((id) => handed.includes(id)));
  await until(() => kv.check().then(() => true));
  await queue.add(anywhere("after"));
  await until(() => handed.includes("after"));
});

test("after a store that did not answer all goes on, and nothing taken meanwhile is forgotten", async () => {
  const { store, kv, queue, handed } = await aloneWith();
  queue.pause();
  await queue.add(...ids(20).map((id) => ({ id, boundTo: here })));
  store.freeze();
  // What is asked for now is given up, and nobody hears that the store hands it out later.
  queue.resume();
  await expect(kv.check()).rejects.toThrow("cannot be used");
  store.thaw();
  await until(() => ids(20).every((id) => handed.includes(id)));
  await queue.add(anywhere("after"));
  await until(() => handed.includes("after"));
});

test("when its connections are killed again and again all goes on", async () => {
  const { store, kv, queue, handed } = await aloneWith();
  const client = new Redis(store.url);
  afterFile(() => client.disconnect());
  for (const id of ids(30)) {
    await client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
    await queue.add(anywhere(id));
  }
  await until(() => kv.check().then(() => true));
  await queue.add(...ids(30).map(anywhere));
  await until(() => ids(30).every((id) => handed.includes(id)));
});

test("what ends while the store is away is told to it afterwards", async () => {
  const store = await startRedis();
  const kv = await openKv(store.url);
  const told: unknown[] = [];
  const log = { ...silent, debug: (_what: unknown, message?: unknown) => void told.push(message) };
  const { queue } = openOn({ kv, concurrency: 2, lockSeconds: 3600, log });
  const { work, running, end } = handWork();
  queue.start(work);
  await queue.add(anywhere("a"), anywhere("b"));
  await until(() => running.size === 2);
  await store.kill();
  end("a");
  end("b", "later");
  await until(() => told.includes("the queue's entry could not be given up; it is tried again"));
  await store.restart();
  await until(() => running.has("b"));
  end("b");
  await until(async () => (await kv.client.keys(`{${kv.prefix}:q}:jobs:[ab]*`)).length === 0);
});
