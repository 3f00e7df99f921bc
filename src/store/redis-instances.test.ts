import { spawn } from "node:child_process";
import { once } from "node:events";
import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import { instancesSuite, sampleFacts } from "../../test/ports/instances-suite.ts";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { createLog } from "../lib/log.ts";
import { identify, type ProcessIdentity } from "../lib/process/identity.ts";
import type { Message } from "./instances.ts";
import { createRedisInstances } from "./redis-instances.ts";

let redis: TestRedis;

beforeAll(async () => {
  // What was acknowledged is on disk: otherwise a killed server may forget its last second, rightly.
  redis = await startRedis({ args: ["--appendfsync", "always"] });
});

const silent = createLog("silent", (line) => line);
const newPrefix = (): string => `test-${randomUUID()}`;

type Given = { prefix: string; name?: string; self?: ProcessIdentity | null; leaseSeconds?: number };

const openOne = async ({ prefix, name = "pod-a", self, leaseSeconds = 30 }: Given) => {
  const kv = await openKv(redis.url, prefix);
  const me = self === undefined ? await identify(process.pid) : self;
  return { kv, instances: createRedisInstances({ kv, name, self: me, leaseSeconds, log: silent }) };
};

instancesSuite("Redis", {
  open: async (name) => (await openOne({ prefix: newPrefix(), name })).instances,
});

/** A process that lives until `end`. */
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

test("several instances see each other by name, and those whose lease has lapsed no more", async () => {
  const prefix = newPrefix();
  const b = await openOne({ prefix, name: "pod-b" });
  const a = await openOne({ prefix, name: "pod-a", leaseSeconds: 1 });
  await b.instances.join(sampleFacts({ name: "pod-b" }));
  await a.instances.join(sampleFacts({ name: "pod-a" }));
  const names = async () => (await b.instances.list()).map((facts) => facts.name);
  expect(await names()).toEqual(["pod-a", "pod-b"]);
  await until(async () => (await names()).join() === "pod-b");
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

test("the name of a process of this machine that is gone is taken over, and the old one does not get it back", async () => {
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

test("two that start at once under one free name do not both get it", async () => {
  const prefix = newPrefix();
  const holders = [await startProcess(), await startProcess()];
  const joins = holders.map(async ({ self }) => {
    const { instances } = await openOne({ prefix, self });
    await instances.join(sampleFacts());
  });
  const results = await Promise.allSettled(joins);
  expect(results.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
});

test("a lease that had lapsed is taken anew, and that is said", async () => {
  const { kv, instances } = await openOne({ prefix: newPrefix() });
  const facts = sampleFacts();
  await instances.join(facts);
  await kv.client.del(kv.key("pod", "pod-a"));
  expect(await instances.list()).toEqual([]);
  expect(await instances.renew(facts)).toBe("lapsed");
  expect(await instances.renew(facts)).toBe("renewed");
  expect(await instances.list()).toEqual([facts]);
});

test("the keys are those of the documents", async () => {
  const { kv, instances } = await openOne({ prefix: "service" });
  await instances.join(sampleFacts());
  await instances.askToDrain("pod-a", 60);
  expect((await kv.client.keys("service:pod:*")).toSorted()).toEqual([
    "service:pod:pod-a",
    "service:pod:pod-a:draining",
    "service:pod:pod-a:inbox",
  ]);
  expect(await kv.client.pttl("service:pod:pod-a")).toBeGreaterThan(0);
  expect(await kv.client.ttl("service:pod:pod-a:draining")).toBeGreaterThan(0);
  expect(await kv.client.ttl("service:pod:pod-a:inbox")).toBeGreaterThan(0);
});

const cancel = (id: string): Message => ({ type: "cancel", job_id: id });

/** An instance that hears what it is told. */
const openHearing = async (prefix: string) => {
  const one = await openOne({ prefix });
  await one.instances.tell("pod-a", cancel("before it joined"));
  await one.instances.join(sampleFacts());
  const controller = new AbortController();
  afterFile(() => controller.abort());
  const heard: Message[] = [];
  const ended = (async () => {
    for await (const message of one.instances.messages(controller.signal)) heard.push(message);
  })();
  return { ...one, controller, heard, ended };
};

test("an instance hears what it is told since it joined, in order, and nothing that others are told", async () => {
  const prefix = newPrefix();
  const { heard, controller, ended } = await openHearing(prefix);
  const other = await openOne({ prefix, name: "pod-b" });
  for (let n = 1; n <= 250; n += 1) await other.instances.tell("pod-a", cancel(String(n)));
  await other.instances.tell("pod-b", cancel("for b"));
  await other.instances.askToDrain("pod-a", 10);
  await until(() => heard.length === 251);
  const all = Array.from({ length: 250 }, (_, n) => cancel(String(n + 1)));
  expect(heard).toEqual([...all, { type: "drain" }]);
  controller.abort();
  await ended;
});

test("what it is told between joining and listening is heard too", async () => {
  const { instances } = await openOne({ prefix: newPrefix() });
  await instances.join(sampleFacts());
  await instances.tell("pod-a", cancel("early"));
  const controller = new AbortController();
  const listening = instances.messages(controller.signal)[Symbol.asyncIterator]();
  expect((await listening.next()).value).toEqual(cancel("early"));
  controller.abort();
});

test("messages that it does not understand are passed over", async () => {
  const { kv, heard, instances } = await openHearing(newPrefix());
  for (const text of ["{", '{"type":"dance"}', "null"])
    await kv.client.xadd(kv.key("pod", "pod-a", "inbox"), "*", "m", text);
  await kv.client.xadd(kv.key("pod", "pod-a", "inbox"), "*", "of another kind", "1");
  await instances.tell("pod-a", cancel("x"));
  await until(() => heard.length > 0);
  expect(heard).toEqual([cancel("x")]);
});

test("messages are heard, each once, although connections are cut and the store restarts", async () => {
  const { kv, heard, instances } = await openHearing(newPrefix());
  const tell = (id: string) => until(() => instances.tell("pod-a", cancel(id)).then(() => true));
  await tell("1");
  await until(() => heard.length === 1);
  await kv.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no").catch(() => undefined);
  await tell("2");
  await until(() => heard.length === 2);
  await redis.restart();
  await tell("3");
  await until(() => heard.length === 3);
  redis.freeze();
  redis.thaw();
  await tell("4");
  await until(() => heard.length === 4);
  expect(heard).toEqual(["1", "2", "3", "4"].map(cancel));
});

test("who hears messages stops without waiting for the next one", async () => {
  const { controller, ended, kv } = await openHearing(newPrefix());
  const later = kv.dedicated().blpop("nothing ever comes here", 3);
  controller.abort();
  expect(await Promise.race([ended.then(() => "stopped"), later.then(() => "later")])).toBe("stopped");
  await later;
});

test("who hears messages stops at once when told to, also while the store is away or hangs", async () => {
  const prefix = newPrefix();
  const [one, other] = [await openHearing(prefix), await openHearing(newPrefix())];
  redis.freeze();
  one.controller.abort();
  await one.ended;
  await redis.kill();
  other.controller.abort();
  await other.ended;
  await redis.restart();
});

test("while the store is away every question is refused", async () => {
  const { instances } = await openOne({ prefix: newPrefix() });
  const facts = sampleFacts();
  await instances.join(facts);
  await redis.kill();
  for (const ask of [
    () => instances.renew(facts),
    () => instances.list(),
    () => instances.leave(),
    () => instances.tell("pod-b", cancel("x")),
    () => instances.askToDrain("pod-b", 1),
    () => instances.isAskedToDrain(),
    () => instances.join(facts),
  ])
    await expect(ask()).rejects.toThrow(ServiceError);
  await redis.restart();
});

test("a lease that cannot be read keeps nobody from seeing the others", async () => {
  const prefix = newPrefix();
  const { kv, instances } = await openOne({ prefix });
  await instances.join(sampleFacts({ name: "pod-a" }));
  await kv.ask(async (client) => {
    await client.set(kv.key("pod", "garbage"), "{");
    await client.lpush(kv.key("pod", "list"), "x");
    for (const name of ["garbage", "list"]) await client.zadd(kv.jobKey("pods"), String(Date.now()), name);
  });
  expect((await instances.list()).map(({ name }) => name)).toEqual(["pod-a"]);
});
