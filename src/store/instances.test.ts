import { spawn } from "node:child_process";
import { once } from "node:events";
import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { sampleFacts } from "../../test/ports/instances-suite.ts";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { createLog } from "../lib/log.ts";
import { identify, type ProcessIdentity } from "../lib/process/identity.ts";
import { createRedisInstances } from "./instances.ts";

let redis: TestRedis;

beforeAll(async () => void (redis = await startRedis()));

const silent = createLog("silent", (line) => line);
const newPrefix = (): string => `test-${randomUUID()}`;

type Given = { prefix: string; name?: string; self?: ProcessIdentity | null; leaseSeconds?: number };

const openOne = async ({ prefix, name = "pod-a", self, leaseSeconds = 30 }: Given) => {
  const kv = await openKv(redis.url, prefix);
  const me = self === undefined ? await identify(process.pid) : self;
  return { kv, instances: createRedisInstances({ kv, name, self: me, leaseSeconds, log: silent }) };
};

/** A process that runs until `end`. */
const startProcess = async () => {
  const child = spawn("sleep", ["1000"], { stdio: "ignore" });
  const end = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  };
  afterFile(end);
  return { self: await identify(child.pid ?? 0), end };
};

const elsewhere: ProcessIdentity = { pid: 7, start_time: "7", boot_id: "another machine" };

test("instances list each other by name, without those whose lease has expired", async () => {
  const prefix = newPrefix();
  const b = await openOne({ prefix, name: "pod-b" });
  const a = await openOne({ prefix, name: "pod-a", leaseSeconds: 1 });
  await b.instances.join(sampleFacts({ name: "pod-b" }));
  await a.instances.join(sampleFacts({ name: "pod-a" }));
  const names = async () => (await b.instances.list()).map((facts) => facts.name);
  expect(await names()).toEqual(["pod-a", "pod-b"]);
  await until(async () => (await names()).join() === "pod-b");
  expect(await b.instances.living()).toEqual(["pod-b"]);
});

test("a name that a living process of this machine has is refused with a sentence for the operator", async () => {
  const prefix = newPrefix();
  const holder = await startProcess();
  const first = await openOne({ prefix, self: holder.self });
  const facts = sampleFacts();
  await first.instances.join(facts);
  const second = await openOne({ prefix });
  await expect(second.instances.join(sampleFacts())).rejects.toThrow(
    "Another instance that is running has the name pod-a; give each instance a SERVICE_POD_NAME of its own",
  );
  expect(await first.instances.renew(facts)).toBe("renewed");
});

test("the name of an ended process of this machine is taken over, and the old start does not get it again", async () => {
  const prefix = newPrefix();
  const holder = await startProcess();
  // With a lease that would have to be watched for longer than any test takes.
  const first = await openOne({ prefix, self: holder.self, leaseSeconds: 3000 });
  const [old, fresh] = [sampleFacts(), sampleFacts()];
  await first.instances.join(old);
  await holder.end();
  const second = await openOne({ prefix });
  await second.instances.join(fresh);
  expect(await first.instances.renew(old)).toBe("taken");
  await first.instances.leave();
  expect(await second.instances.living()).toEqual(["pod-a"]);
  expect(await second.instances.list()).toEqual([fresh]);
  expect(await second.instances.renew(fresh)).toBe("renewed");
});

test("a name on another machine is refused while it is renewed, and taken over when it is not", async () => {
  const prefix = newPrefix();
  const first = await openOne({ prefix, self: elsewhere, leaseSeconds: 4 });
  const facts = sampleFacts();
  await first.instances.join(facts);
  const renewing = setInterval(() => void first.instances.renew(facts).catch(() => undefined), 300);
  const second = await openOne({ prefix, leaseSeconds: 4 });
  try {
    await expect(second.instances.join(sampleFacts())).rejects.toThrow("SERVICE_POD_NAME");
  } finally {
    clearInterval(renewing);
  }
  const fresh = sampleFacts();
  await second.instances.join(fresh);
  expect(await second.instances.list()).toEqual([fresh]);
  expect(await first.instances.renew(facts)).toBe("taken");
});

test("a start whose first attempt to join got no answer gets its own name", async () => {
  const { instances } = await openOne({ prefix: newPrefix() });
  const facts = sampleFacts();
  await instances.join(facts);
  await instances.join(facts);
  expect(await instances.renew(facts)).toBe("renewed");
});

test("of two starts with one free name at most one gets it", async () => {
  const prefix = newPrefix();
  const holders = [await startProcess(), await startProcess()];
  const joins = holders.map(async ({ self }) => {
    const { instances } = await openOne({ prefix, self });
    await instances.join(sampleFacts());
  });
  const results = await Promise.allSettled(joins);
  expect(results.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
});

test("an expired lease is taken again and reported as lapsed", async () => {
  const { kv, instances } = await openOne({ prefix: newPrefix() });
  const facts = sampleFacts();
  await instances.join(facts);
  await kv.client.del(kv.key("pod", "pod-a"));
  expect(await instances.list()).toEqual([]);
  expect(await instances.renew(facts)).toBe("lapsed");
  expect(await instances.renew(facts)).toBe("renewed");
  expect(await instances.list()).toEqual([facts]);
});

test("keys are as documented", async () => {
  const { kv, instances } = await openOne({ prefix: "service" });
  await instances.join(sampleFacts());
  await instances.askToDrain("pod-a", 60);
  expect((await kv.client.keys("service:pod:*")).toSorted()).toEqual([
    "service:pod:pod-a",
    "service:pod:pod-a:draining",
  ]);
  expect(await kv.client.pttl("service:pod:pod-a")).toBeGreaterThan(0);
  expect(await kv.client.ttl("service:pod:pod-a:draining")).toBeGreaterThan(0);
});

test("while the store is unreachable every call is refused", async () => {
  const { instances } = await openOne({ prefix: newPrefix() });
  const facts = sampleFacts();
  await instances.join(facts);
  await redis.kill();
  for (const ask of [
    () => instances.renew(facts),
    () => instances.list(),
    () => instances.leave(),
    () => instances.askToDrain("pod-b", 1),
    () => instances.isAskedToDrain(),
    () => instances.join(facts),
  ])
    await expect(ask()).rejects.toThrow(ServiceError);
  await redis.restart();
});

test("an unreadable lease does not hide the others", async () => {
  const prefix = newPrefix();
  const { kv, instances } = await openOne({ prefix });
  await instances.join(sampleFacts({ name: "pod-a" }));
  await kv.ask(async (client) => {
    await client.set(kv.key("pod", "garbage"), "{");
    await client.lpush(kv.key("pod", "list"), "x");
    const later = String(Date.now() + 60_000);
    for (const name of ["garbage", "list"]) await client.zadd(kv.jobKey("pods"), later, name);
  });
  expect((await instances.list()).map(({ name }) => name)).toEqual(["pod-a"]);
});
