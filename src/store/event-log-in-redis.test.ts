import { randomUUID } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import {
  collect,
  createdAt,
  end,
  eventLogSuite,
  follow,
  never,
  numbers,
  text,
  texts,
  upTo,
  type KnownJobs,
} from "../../test/ports/event-log-suite.ts";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { startRedisCluster } from "../../test/redis-cluster.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import type { Kv } from "../kv/kv.ts";
import { createRedisNotifier } from "../kv/redis-notifier.ts";
import { createLog } from "../lib/log.ts";
import { createEventLog, eventLogName } from "./event-log.ts";
import type { Batch } from "./logs.ts";
import { createRedisLogs } from "./redis-logs.ts";

let redis: TestRedis;
let cluster: Awaited<ReturnType<typeof startRedisCluster>>;

// What was acknowledged is on disk: otherwise a killed server may forget its last second, rightly.
const prompt = { args: ["--appendfsync", "always"] };

beforeAll(async () => {
  [redis, cluster] = await Promise.all([startRedis(prompt), startRedisCluster(prompt)]);
});

const silent = createLog("silent", (line) => line);

/** An instance of its own on the store: connection, notifier and log. */
const openInstance = async (
  prefix: string,
  jobs: KnownJobs = new Map(),
  { maxBytes = 10_000_000, url = redis.url } = {},
) => {
  const kv = await openKv(url, prefix);
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
  return { kv, notifier, log };
};

const newPrefix = (): string => `test-${randomUUID()}`;

for (const [kind, url] of [
  ["Redis", () => redis.url],
  ["Redis Cluster", () => cluster.url],
] as const)
  eventLogSuite(kind, {
    open: async ({ maxBytes }) => {
      const [prefix, jobs]: [string, KnownJobs] = [newPrefix(), new Map()];
      const open = async () => (await openInstance(prefix, jobs, { maxBytes, url: url() })).log;
      return { log: await open(), jobs, reopen: open };
    },
  });

/** Two instances that share a store and its records. */
const openTwo = async () => {
  const prefix = newPrefix();
  const jobs: KnownJobs = new Map();
  const id = randomUUID();
  jobs.set(id, { createdAt, over: false });
  return { id, jobs, a: await openInstance(prefix, jobs), b: await openInstance(prefix, jobs) };
};

const killConnections = async (kv: Kv): Promise<void> => {
  await kv.client.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no").catch(() => undefined);
  await until(() => kv.client.call("CLIENT", "KILL", "TYPE", "pubsub").then(() => true));
};

test("two instances that write one log number it without gaps, and readers on both get the same order", async () => {
  const { id, a, b } = await openTwo();
  const readers = [follow(a.log.read(id, 0, never)), follow(b.log.read(id, 0, never))];
  await until(() => readers.every(({ seen }) => seen.length === 1));
  for (let n = 0; n < 300; n += 1) {
    a.log.append(id, 1, text(`a${n}`));
    b.log.append(id, 1, text(`b${n}`));
    if (n % 20 === 0) await a.kv.check();
  }
  await until(() => readers.every(({ seen }) => seen.length === 601));
  await end(a.log, id);
  await Promise.all(readers.map(({ ended }) => ended));
  const [one, other] = readers.map(({ seen }) => seen);
  expect(one).toEqual(other);
  expect(numbers(one ?? [])).toEqual(upTo(602));
  expect(one?.filter((event) => event.type === "stage")).toHaveLength(2);
  for (const writer of ["a", "b"]) {
    expect(texts(one ?? []).filter((value) => value?.startsWith(writer))).toEqual(
      upTo(300).map((n) => `${writer}${n - 1}`),
    );
  }
});

test("a reader of a job that ended without an end mark gets the last events and ends", async () => {
  const { id, jobs, a, b } = await openTwo();
  const reader = follow(b.log.read(id, 0, never));
  a.log.append(id, 1, text("a"));
  await until(() => reader.seen.length === 2);
  jobs.set(id, { createdAt, over: true });
  let asked = 0;
  jobs.get = (key) => {
    asked += 1;
    return Map.prototype.get.call(jobs, key) as ReturnType<KnownJobs["get"]>;
  };
  await until(() => asked > 0);
  // Still being written although the record says that the job is over.
  a.log.append(id, 1, text("last"));
  await reader.ended;
  expect(texts(reader.seen)).toEqual([null, "a", "last"]);
});

test("two concurrent first readers begin the log once", async () => {
  const { id, a, b } = await openTwo();
  const readers = [a, b, a, b].map(({ log }) => follow(log.read(id, 0, never)));
  await until(() => readers.every(({ seen }) => seen.length > 0));
  a.log.append(id, 1, text("a"));
  await end(a.log, id);
  for (const { seen, ended } of readers) {
    await ended;
    expect(seen.map((event) => event.type)).toEqual(["stage", "text", "stage"]);
  }
});

test("a log that is not removed expires in the store", async () => {
  const { id, a } = await openTwo();
  a.log.append(id, 1, text("a"));
  await a.log.finish(id);
  const seconds = await a.kv.client.ttl(a.kv.key("job-events", id));
  expect(seconds).toBeGreaterThan(3600);
  expect(seconds).toBeLessThanOrEqual(3600 + 7 * 86_400);
});

test("a reader that stalls while the log grows gets all of it later", async () => {
  const { id, a, b } = await openTwo();
  const reading = b.log.read(id, 0, never)[Symbol.asyncIterator]();
  a.log.append(id, 1, text("x".repeat(60_000)));
  expect((await reading.next()).value).toMatchObject({ seq: 1 });
  for (let n = 0; n < 100; n += 1) {
    a.log.append(id, 1, text("x".repeat(60_000)));
    await a.kv.check();
  }
  await end(a.log, id);
  const rest: number[] = [];
  for (let next = await reading.next(); next.done !== true; next = await reading.next())
    rest.push(next.value.seq);
  expect(rest).toEqual(upTo(103, 2));
});

test("events and readers survive repeated cuts of all connections, and no event comes twice", async () => {
  const { id, a, b } = await openTwo();
  const reader = follow(b.log.read(id, 0, never));
  await until(() => reader.seen.length === 1);
  for (let n = 1; n <= 200; n += 1) {
    a.log.append(id, 1, text(String(n)));
    if (n % 40 === 0) {
      await killConnections(a.kv);
      await until(() => a.kv.check().then(() => true));
    }
  }
  await end(a.log, id);
  await reader.ended;
  expect(texts(reader.seen)).toEqual([null, ...upTo(200).map(String), null]);
  expect(numbers(reader.seen)).toEqual(upTo(202));
});

test("events and readers wait while the store is unreachable, and continue by themselves, in order and without repetition", async () => {
  const { id, a, b } = await openTwo();
  const reader = follow(b.log.read(id, 0, never));
  a.log.append(id, 1, text("before"));
  await until(() => reader.seen.length === 2);
  await redis.kill();
  for (let n = 1; n <= 50; n += 1) a.log.append(id, 1, text(String(n)));
  b.notifier.notify(`${eventLogName}:${id}`);
  // `finish` does not wait for the unreachable store: the end is written later.
  await end(a.log, id);
  await redis.restart();
  await reader.ended;
  expect(texts(reader.seen)).toEqual([null, "before", ...upTo(50).map(String), null]);
  expect(numbers(reader.seen)).toEqual(upTo(53));
});

test("a store that hangs and then continues writes nothing twice", async () => {
  const { id, a, b } = await openTwo();
  const reader = follow(b.log.read(id, 0, never));
  a.log.append(id, 1, text("before"));
  await until(() => reader.seen.length === 2);
  redis.freeze();
  a.log.append(id, 1, text("sent into the void"));
  // Resolves when the write has failed once, for want of an answer: the server has it in its socket all the same.
  await end(a.log, id);
  redis.thaw();
  await reader.ended;
  expect(texts(reader.seen)).toEqual([null, "before", "sent into the void", null]);
});

test("a batch that the client sends again after later ones is not appended again", async () => {
  const { kv, notifier } = await openInstance(newPrefix());
  const logs = createRedisLogs({ kv, notifier, name: eventLogName, maxEntries: 1e9 });
  const id = randomUUID();
  const batch = (number: number): Batch => ({
    name: `writer:${number}`,
    known: { number: number - 1, size: 0 },
    start: 1,
    entries: [{ e: JSON.stringify({ number }) }],
    seconds: 60,
  });
  for (const number of [1, 2, 1, 3, 2, 3]) await logs.append(id, batch(number));
  const page = await logs.read(id, 0, 0);
  expect(page?.entries.map(({ number }) => number)).toEqual([1, 2, 3]);
});

test("a full backlog leaves out thinking and text first, then all but the stages; the log says so once", async () => {
  const { id, a } = await openTwo();
  await redis.kill();
  a.log.append(id, 1, { type: "stage", stage: "claimed", detail: null });
  const result = { type: "tool_result" as const, tool_use_id: "t", is_error: false, parent: null };
  a.log.append(id, 1, { ...result, content: "kept" });
  for (let n = 0; n < 200; n += 1) a.log.append(id, 1, text("x".repeat(60_000)));
  for (let n = 0; n < 200; n += 1) a.log.append(id, 1, { ...result, content: "y".repeat(60_000) });
  a.log.append(id, 1, { type: "stage", stage: "pushed", detail: null });
  await redis.restart();
  // The connection comes back in its own time, and what waits is written after that.
  const events = await until(
    async () => {
      const found = await collect(a.log.read(id, 0, never, true));
      return found.some((event) => event.type === "stage" && event.stage === "pushed") ? found : null;
    },
    { what: "all that waited to be written" },
  );
  const count = (type: string) => events.filter((event) => event.type === type).length;
  expect([count("stage"), count("warning")]).toEqual([3, 1]);
  expect(events.find((event) => event.type === "tool_result")).toMatchObject({ content: "kept" });
  for (const [type, most] of [
    ["text", 55],
    ["tool_result", 20],
  ] as const) {
    expect(count(type)).toBeGreaterThan(most - 6);
    expect(count(type)).toBeLessThan(most);
  }
});

test("a log that is closed while the store is unreachable gives up what waits", async () => {
  const { id, a } = await openTwo();
  await redis.kill();
  a.log.append(id, 1, text("lost"));
  await a.log.close();
  await redis.restart();
});

test("in a Cluster events and notifications continue after each of its nodes was restarted", async () => {
  const prefix = newPrefix();
  const ids = Array.from({ length: 10 }, () => randomUUID());
  const jobs: KnownJobs = new Map(ids.map((id) => [id, { createdAt, over: false }]));
  const open = async () => (await openInstance(prefix, jobs, { url: cluster.url })).log;
  const [a, b] = [await open(), await open()];
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
