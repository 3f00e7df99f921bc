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
import { countsOf, ids, openOn } from "./bullmq-queue.fixture.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});

/** What it has acknowledged is on its disk when it is killed. */
const startPrompt = () => startRedis({ args: ["--appendfsync", "always"] });

/** A process that takes `id` and dies by SIGKILL while it works on it. */
const dieWorkingOn = async (kv: Kv, id: string): Promise<void> => {
  const source = `
    const { connectKv } = await import(${JSON.stringify(new URL("../kv/connect.ts", import.meta.url).href)});
    const { createBullQueue } = await import(${JSON.stringify(new URL("bullmq-queue.ts", import.meta.url).href)});
    const log = { debug() {}, info() {}, warn() {}, error() {} };
    const kv = await connectKv({ url: ${JSON.stringify(redis.url)}, prefix: ${JSON.stringify(kv.prefix)}, log });
    const queue = createBullQueue({ kv, podName: "gone", concurrency: 1,
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

test.concurrent("an id that an instance held when it was killed is handed out again", async () => {
  const kv = await openKv(redis.url);
  await dieWorkingOn(kv, "a");
  const { queue } = openOn({ kv });
  const { work, running, end } = handWork();
  queue.start(work);
  await until(() => running.has("a"));
  end("a");
});

test.concurrent("an id that a killed instance held can be put in again once its lock has lapsed, before anybody has checked", async () => {
  const kv = await openKv(redis.url);
  await dieWorkingOn(kv, "a");
  const { queue } = openOn({ kv });
  const putAnew = async (): Promise<number | undefined> => {
    await queue.remove(anywhere("a"));
    await queue.add(anywhere("a"));
    return (await countsOf(kv))["wait"];
  };
  expect(await putAnew()).toBe(0);
  await until(async () => (await putAnew()) === 1);
  const { work, handed, running, end } = handWork();
  queue.start(work);
  await until(() => running.has("a"));
  await queue.add(anywhere("b"));
  end("a");
  await until(() => running.has("b"));
  end("b");
  expect(handed).toEqual(["a", "b"]);
});

test.concurrent("an id whose lock has lapsed while it is worked on is neither worked on twice here nor over before its time", async () => {
  const store = await startPrompt();
  const kv = await openKv(store.url);
  const { queue } = openOn({ kv, concurrency: 2, lockSeconds: 1 });
  const { work, handed, running, end } = handWork();
  queue.start(work);
  await queue.add(anywhere("a"));
  await until(() => running.has("a"));
  await store.kill();
  await new Promise((resolve) => setTimeout(resolve, 1500));
  await store.restart();
  await until(() => kv.check().then(() => true));
  // It is delivered again meanwhile.
  await new Promise((resolve) => setTimeout(resolve, 3000));
  await queue.add(anywhere("b"));
  await until(() => running.has("b"));
  expect(await countsOf(kv)).toMatchObject({ wait: 0, active: 2, delayed: 0, completed: 0 });
  end("a");
  end("b");
  await until(async () => (await countsOf(kv))["completed"] === 2);
  expect(handed).toEqual(["a", "b"]);
});

/** A store of the test's own, an instance that works on it, and what was handed out. */
const aloneWith = async (lockSeconds = 3600) => {
  const store = await startPrompt();
  const kv = await openKv(store.url);
  const { queue, thrown } = openOn({ kv, concurrency: 2, lockSeconds });
  const handed: string[] = [];
  queue.start(async (id) => {
    handed.push(id);
    return "done";
  });
  await queue.add(anywhere("before"));
  await until(() => handed.includes("before"));
  return { store, kv, queue, thrown, handed };
};

test.concurrent("adding and removing while the store is unreachable does not fail, and after its restart all continues", async () => {
  // What the store handed out as it was killed is held until its lock lapses.
  const { store, kv, queue, handed } = await aloneWith(3);
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

test.concurrent("after a store that did not answer all continues, and nothing taken in the meantime is forgotten", async () => {
  const { store, kv, queue, handed } = await aloneWith();
  queue.pause();
  await queue.add(...ids(20).map((id) => ({ id, boundTo: here })));
  store.freeze();
  // What is asked for now is given up, and nobody hears that the store hands it out later.
  queue.resume();
  await expect(kv.check()).rejects.toThrow("cannot be used");
  store.thaw();
  await until(() => ids(20).every((id) => handed.includes(id)));
  await until(() => kv.check().then(() => true));
  await queue.add(anywhere("after"));
  await until(() => handed.includes("after"));
});

test.concurrent("when its connections are killed again and again all continues", async () => {
  const { store, kv, queue, handed } = await aloneWith(3);
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

test.concurrent("what ends while the store is unreachable is reported to it afterwards", async () => {
  const store = await startPrompt();
  const kv = await openKv(store.url);
  const { queue } = openOn({ kv, concurrency: 2, lockSeconds: 3600 });
  const { work, running, end } = handWork();
  queue.start(work);
  await queue.add(anywhere("a"), anywhere("b"));
  await until(() => running.size === 2);
  await store.kill();
  end("a");
  end("b", "later");
  await store.restart();
  await until(() => running.has("b"));
  end("b");
  await until(async () => (await countsOf(kv))["completed"] === 2);
  expect(await countsOf(kv)).toMatchObject({ wait: 0, active: 0, delayed: 0, failed: 0 });
});

test.concurrent("a queue whose store is unreachable is closed in time", async () => {
  const { store, queue } = await aloneWith();
  await store.kill();
  const begun = performance.now();
  await queue.close();
  expect(performance.now() - begun).toBeLessThan(5000);
});
