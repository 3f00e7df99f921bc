import type { Cluster } from "ioredis";
import { beforeAll, describe, expect, test } from "vitest";
import { completionTtl, sampleCompletion } from "../../test/ports/completion-store-suite.ts";
import {
  conversationKey,
  conversationTtl,
  sampleConversation,
} from "../../test/ports/conversation-store-suite.ts";
import { busEvent, followBus } from "../../test/ports/event-bus-suite.ts";
import { openKv } from "../../test/kv.ts";
import { openRedisJobStore } from "../../test/open-stores.ts";
import { sampleRecord } from "../../test/ports/job-record-sample.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { everythingVisible } from "../contract/visibility.ts";
import type { Kv, KvClient } from "../kv/kv.ts";
import { createRedisNotifier } from "../kv/redis-notifier.ts";
import { createLog } from "../lib/log.ts";
import { completionKind, createCompletionStore } from "./completion-store.ts";
import { conversationKind, createConversationStore } from "./conversation-store.ts";
import { createEventBus, eventBusLog } from "./event-bus.ts";
import { createRedisLogs } from "./redis-logs.ts";
import { openRedisRecords } from "./redis-records.ts";
import { createVisibilityStore, visibilityKind } from "./visibility-store.ts";

let redis: TestRedis;

beforeAll(async () => {
  redis = await startRedis({ args: ["--appendfsync", "always"] });
});

const lines: string[] = [];
const log = createLog("info", (line) => (lines.push(line), ""));
const begin = new Date("2026-01-01T00:00:00Z");

const now = (): Date => begin;
const completionsOn = (kv: Kv) =>
  createCompletionStore(openRedisRecords(completionKind(completionTtl), { kv, now, log }));
const conversationsOn = (kv: Kv) =>
  createConversationStore(openRedisRecords(conversationKind(conversationTtl), { kv, now, log }));
const visibilitiesOn = (kv: Kv) => createVisibilityStore(openRedisRecords(visibilityKind, { kv, now, log }));
const busOn = (kv: Kv) =>
  createEventBus({
    logs: createRedisLogs({ ...eventBusLog, kv, notifier: createRedisNotifier({ kv, log }) }),
    now: () => new Date(),
    log,
  });
const all = { limit: 10, status: "all" } as const;

/** Sends every command twice, as the client of a Cluster does when the connection breaks before the reply. */
const sentTwice = (kv: Kv): Kv => {
  const client = new Proxy(kv.client, {
    get: (target: KvClient, name) => {
      const value: unknown = Reflect.get(target, name);
      if (typeof value !== "function") return value;
      return async (...args: unknown[]) => {
        await (value as Cluster["call"]).apply(target as Cluster, args as never);
        return await (value as Cluster["call"]).apply(target as Cluster, args as never);
      };
    },
  });
  return { ...kv, client, ask: (work) => kv.ask(() => work(client)) };
};

describe("commands that the client sends twice", () => {
  test("create, change and remove a job once", async () => {
    const store = openRedisJobStore({ kv: sentTwice(await openKv(redis.url)), podName: "pod", log });
    const record = sampleRecord();
    const { id } = record;
    expect(await store.create(record, { maxQueued: 1 })).toEqual({ record, created: true });
    const running = { status: "running", attempt: 1 } as const;
    expect(await store.update(id, { status: ["queued"] }, running)).toMatchObject(running);
    expect(await store.counts()).toMatchObject({ queued: 0, running: 1 });
    await store.update(id, { status: ["running"] }, { status: "failed", ended_at: record.created_at });
    await store.remove(id);
    expect(await store.get(id)).toBeNull();
    expect((await store.list({ limit: 10, status: "", cursor: "" })).records).toEqual([]);
  });

  test("create and end a completion once", async () => {
    const store = completionsOn(sentTwice(await openKv(redis.url)));
    expect(await store.create(sampleCompletion())).toBe(true);
    expect(await store.create(sampleCompletion())).toBe(false);
    const ended = { status: "completed", ended_at: begin.toISOString() } as const;
    expect(await store.update("one", "e1", ended)).toBe(true);
    expect(await store.update("one", "e1", ended)).toBe(false);
    expect(await store.list(all)).toHaveLength(1);
  });

  test("write and remove a conversation", async () => {
    const store = conversationsOn(sentTwice(await openKv(redis.url)));
    await store.put(conversationKey("x"), sampleConversation());
    expect(await store.get(conversationKey("x"))).toEqual(sampleConversation());
    await store.remove(conversationKey("x"));
    expect(await store.get(conversationKey("x"))).toBeNull();
  });

  test("append each event once", async () => {
    const kv = sentTwice(await openKv(redis.url));
    const bus = busOn(kv);
    bus.publish(busEvent("one", "tool_use", "a"));
    await until(async () => (await kv.client.xlen(kv.key("events", "one"))) === 1);
    bus.publish(busEvent("one", "tool_use", "b"));
    bus.publish(busEvent("one", "done"));
    const reader = followBus(bus, "one");
    await reader.reading;
    expect(reader.contents()).toEqual(["a", "b", ""]);
  });
});

test("a conversation expires its time to live after it was last written, a final completion after its end, an unfinished one stays", async () => {
  const kv = await openKv(redis.url);
  const [store, key] = [conversationsOn(kv), kv.key("conv", conversationKey("x"))];
  await store.put(conversationKey("x"), sampleConversation());
  await kv.client.expire(key, 10);
  await store.put(conversationKey("x"), sampleConversation({ answers: [] }));
  expect(await kv.client.ttl(key)).toBeGreaterThan(conversationTtl - 60);
  expect(await kv.client.ttl(key)).toBeLessThanOrEqual(conversationTtl);
  const [completions, one] = [completionsOn(kv), `${kv.prefix}:completion:one`];
  await completions.create(sampleCompletion());
  expect(await kv.client.ttl(one)).toBe(-1);
  await completions.update("one", "e1", { status: "failed", ended_at: begin.toISOString() });
  expect(await kv.client.ttl(one)).toBeGreaterThan(completionTtl - 60);
  await completions.create(sampleCompletion());
  expect(await kv.client.ttl(one)).toBe(-1);
});

test("entries without a record are left out of lists, and removed when they are older than any record", async () => {
  const kv = await openKv(redis.url);
  const store = completionsOn(kv);
  for (const uuid of ["gone", "ended", "running"]) await store.create(sampleCompletion({ uuid }));
  await store.update("ended", "e1", { status: "failed", ended_at: begin.toISOString() });
  await kv.client.del(kv.key("completion", "gone"));
  // As a crash between record and index leaves it.
  await kv.client.zadd(kv.jobKey("completions:unfinished"), 0, `${begin.getTime()}_ended`);
  expect((await store.list(all)).map(({ uuid }) => uuid)).toEqual(["running", "ended"]);
  expect((await store.unfinished()).map(({ uuid }) => uuid)).toEqual(["running"]);
  const counts = () =>
    Promise.all(["completions", "completions:unfinished"].map((name) => kv.client.zcard(kv.jobKey(name))));
  const later = (seconds: number) => new Date(begin.getTime() + (8 * 86_400 + seconds) * 1000);
  await store.expire(later(completionTtl - 1));
  expect(await counts()).toEqual([3, 3]);
  await store.expire(later(completionTtl + 1));
  expect(await counts()).toEqual([0, 0]);
});

test("lists longer than a page are complete, up to the limit", async () => {
  const store = completionsOn(await openKv(redis.url));
  const uuids = Array.from({ length: 120 }, (_, n) => `n${String(n).padStart(3, "0")}`);
  await Promise.all(uuids.map((uuid) => store.create(sampleCompletion({ uuid }))));
  const newestFirst = uuids.toReversed();
  const list = async (limit: number) =>
    (await store.list({ limit, status: "queued" })).map(({ uuid }) => uuid);
  expect(await list(1000)).toEqual(newestFirst);
  expect(await list(70)).toEqual(newestFirst.slice(0, 70));
});

test("foreign values are skipped, with one warning each", async () => {
  const kv = await openKv(redis.url);
  const [completions, conversations] = [completionsOn(kv), conversationsOn(kv)];
  const visibilities = visibilitiesOn(kv);
  const key = conversationKey("x");
  await completions.create(sampleCompletion({ uuid: "good" }));
  await completions.create(sampleCompletion({ uuid: "foreign" }));
  await kv.client.set(kv.key("completion", "foreign"), "{}");
  await completions.create(sampleCompletion({ uuid: "wrong-type" }));
  await kv.client.del(kv.key("completion", "wrong-type"));
  await kv.client.hset(kv.key("completion", "wrong-type"), "x", "y");
  await kv.client.set(kv.key("conv", key), "x");
  await kv.client.hset(kv.key("stream_config", "a"), "x", "y");
  lines.length = 0;
  for (let time = 0; time < 2; time += 1) {
    expect((await completions.list(all)).map(({ uuid }) => uuid)).toEqual(["good"]);
    expect(await conversations.get(key)).toBeNull();
    expect(await visibilities.get("a")).toBeNull();
  }
  expect(lines).toHaveLength(4);
});

test("a stream has at most the newest 2000 events, and expires an hour after done", async () => {
  const kv = await openKv(redis.url);
  const bus = busOn(kv);
  const key = `${kv.prefix}:events:one`;
  for (let n = 0; n < 1500; n += 1) bus.publish(busEvent("one", "tool_use", `${n}`));
  await until(async () => (await kv.client.xlen(key)) === 1500);
  expect(await kv.client.ttl(key)).toBeGreaterThan(604_800);
  for (let n = 0; n < 1500; n += 1) bus.publish(busEvent("one", "tool_use", `${n}`));
  bus.publish(busEvent("one", "done"));
  await until(async () => (await kv.client.ttl(key)) <= 3600);
  expect(await kv.client.xlen(key)).toBe(2000);
  const [[, fields] = ["", []]] = await kv.client.xrange(key, "-", "+", "COUNT", 1);
  expect(fields.filter((_, at) => at % 2 === 0)).toEqual([
    "event_type",
    "content",
    "ts",
    "session_id",
    "correlation_id",
  ]);
});

describe("while the store is unreachable", () => {
  test("every call is store_unavailable, publishing never waits, and events arrive in order when the store is back", async () => {
    const kv = await openKv(redis.url);
    const bus = busOn(kv);
    await redis.kill();
    const refused = { code: "store_unavailable" };
    const [completions, conversations] = [completionsOn(kv), conversationsOn(kv)];
    const visibilities = visibilitiesOn(kv);
    for (const asked of [
      () => completions.create(sampleCompletion()),
      () => completions.update("one", "e1", {}),
      () => completions.get("one"),
      () => completions.list(all),
      () => completions.unfinished(),
      () => completions.expire(begin),
      () => conversations.get(conversationKey("x")),
      () => conversations.put(conversationKey("x"), sampleConversation()),
      () => conversations.remove(conversationKey("x")),
      () => visibilities.get("a"),
      () => visibilities.change("a", () => everythingVisible),
    ])
      await expect(asked()).rejects.toMatchObject(refused);
    lines.length = 0;
    for (const content of ["a", "b"]) bus.publish(busEvent("old", "tool_use", content));
    bus.publish(busEvent("old", "done"));
    const reader = followBus(bus, "old");
    await redis.restart();
    await reader.reading;
    expect(reader.contents().slice(-3)).toEqual(["a", "b", ""]);
    expect(lines.filter((line) => line.includes("cannot be written at present"))).toHaveLength(1);
  });

  test("a full backlog leaves out events with one warning, and a bus that closes gives up", async () => {
    const kv = await openKv(redis.url);
    const bus = busOn(kv);
    await redis.kill();
    lines.length = 0;
    const big = "x".repeat(4000);
    for (let n = 0; n < 2500; n += 1) bus.publish(busEvent("many", "tool_use", big));
    await until(() => lines.some((line) => line.includes("cannot be written at present")));
    for (let n = 0; n < 2500; n += 1) bus.publish(busEvent("many", "tool_use", big));
    expect(lines.filter((line) => line.includes("some are left out"))).toHaveLength(1);
    await bus.close();
    expect(lines.at(-1)).toContain("they are missing");
    await redis.restart();
  });
});
