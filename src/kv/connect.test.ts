import { readFile } from "node:fs/promises";
import { expect, test } from "vitest";
import { cuttableWay } from "../../test/cuttable.ts";
import { openKv, optionsFileOf, withOptions } from "../../test/kv.ts";
import { startRedisCluster } from "../../test/redis-cluster.ts";
import { redisCertificate } from "../../test/redis-tls.ts";
import { lastingPort } from "../../test/lasting-port.ts";
import { startRedis } from "../../test/redis.ts";
import { until } from "../../test/until.ts";
import { ServiceError } from "../contract/errors.ts";
import { createLog } from "../lib/log.ts";
import { connectKv } from "./connect.ts";

const silent = createLog("silent", (text) => text);

/** What an operator reads: the failure with all its causes, and the log. */
const failureOf = async (url: string, patience?: number) => {
  const lines: string[] = [];
  const log = createLog("debug", (line) => (lines.push(line), ""));
  const failure = await connectKv({
    url,
    optionsFile: optionsFileOf(url),
    prefix: "p",
    log,
    ...(patience !== undefined && { patience }),
  }).then(
    () => new Error("it connected"),
    (error: unknown) => (error instanceof Error ? error : new Error(String(error))),
  );
  return { message: failure.message, log: lines.join("") };
};

test("over TLS, with the authority in the options, values are written and read", async () => {
  const [{ certificate, args }, port] = [await redisCertificate(), await lastingPort()];
  const redis = await startRedis({ args: args(port) });
  const ca = await readFile(certificate, "utf8");
  const kv = await openKv(
    await withOptions(`rediss://localhost:${port}`, { tls: { ca, servername: "127.0.0.1" } }),
  );
  await kv.ask((client) => client.set(kv.key("a"), "1"));
  expect(await kv.ask((client) => client.get(kv.key("a")))).toBe("1");
  expect((await failureOf(`rediss://127.0.0.1:${port}`, 300)).message).toMatch(/self-signed certificate/);
  await redis.kill();
});

test("a password, or a user of the access list, is taken from the URL; wrong ones are refused at once, with a sentence and a log that do not repeat them", async () => {
  const redis = await startRedis({
    args: ["--requirepass", "p@ss word", ..."--user svc on >hunter2 ~* &* +@all".split(" ")],
  });
  const at = (credentials: string): string => redis.url.replace("//", `//${credentials}`);
  for (const credentials of [":p%40ss%20word@", "svc:hunter2@"])
    await (await openKv(at(credentials))).check();
  for (const credentials of [":hunter3@", "nobody:hunter3@", ""]) {
    // Longer than the test may take: it does not wait for what cannot get better.
    const { message, log } = await failureOf(at(credentials), 600_000);
    expect(message).toMatch(/^The key-value store at 127\.0\.0\.1:\d+ cannot be used \((WRONGPASS|NOAUTH)/);
    expect(message + log).not.toMatch(/hunter3|nobody/);
  }
});

test("a missing store is given up, with a sentence that has the address and no credentials", async () => {
  const port = await lastingPort();
  const hosts = [{ host: "127.0.0.1", port }];
  for (const [name, options] of [
    ["127.0.0.1", {}],
    ["cluster", { cluster: hosts }],
    ["sentinel", { sentinels: hosts, name: "main" }],
  ] as const) {
    const url = await withOptions(`redis://svc:hunter2@${name}:${port}`, options);
    const { message, log } = await failureOf(url, 300);
    expect(message).toMatch(
      new RegExp(`^The key-value store at 127\\.0\\.0\\.1:${port} cannot be used \\(.+\\); start it`),
    );
    expect(message + log).not.toMatch(/hunter2|svc:/);
  }
});

test("a store that comes up a little later is waited for, until an abort", async () => {
  const port = await lastingPort();
  const controller = new AbortController();
  const at = { url: `redis://127.0.0.1:${port}`, prefix: "p", log: silent };
  const aborted = connectKv({ ...at, signal: controller.signal });
  const connecting = connectKv(at);
  controller.abort(new Error("stopped"));
  await expect(aborted).rejects.toThrow("stopped");
  await startRedis({ port });
  const kv = await connecting;
  await kv.check();
  await kv.close();
});

test("a store that may evict keys is refused", async () => {
  const redis = await startRedis({ args: ["--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"] });
  expect((await failureOf(redis.url)).message).toMatch(
    /maxmemory-policy allkeys-lru.*set maxmemory-policy noeviction/,
  );
});

test("a node of a Cluster is no store by itself, and one node's policy is enough to refuse a Cluster", async () => {
  const cluster = await startRedisCluster();
  const [first, , last] = cluster.nodes;
  expect((await failureOf(first?.url ?? "")).message).toMatch(/name its nodes as cluster/);
  const kv = await openKv(cluster.url);
  await kv.check();
  const direct = await openKv(cluster.url);
  await ("nodes" in direct.client ? direct.client.nodes("master") : [])
    .find((node) => node.options.port === last?.port)
    ?.config("SET", "maxmemory-policy", "volatile-lru");
  expect((await failureOf(cluster.url)).message).toMatch(/maxmemory-policy volatile-lru/);
});

test.each([
  ["killed", "kill", "restart"],
  ["frozen", "freeze", "thaw"],
] as const)(
  "a store that is %s is unavailable, soon without a wait, and is used again when it is back",
  async (_what, away, back) => {
    const redis = await startRedis();
    const kv = await openKv(redis.url);
    await kv.ask((client) => client.set(kv.key("a"), "1"));
    const before = kv.backSince();
    await redis[away]();
    const refused = { code: "store_unavailable", status: 503, retryAfter: 5 };
    await expect(kv.check()).rejects.toMatchObject(refused);
    // Nothing is sent to a store that has not answered: far less time than one time limit for many in a row.
    const asked = Array.from({ length: 50 }, (_, n) => n);
    for (const _ of asked) await expect(kv.ask((client) => client.get("a"))).rejects.toMatchObject(refused);
    await redis[back]();
    await until(() => kv.check().then(() => true), { what: "the store to be back" });
    expect(await kv.ask((client) => client.get(kv.key("a")))).toBe("1");
    expect(kv.backSince()).toBeGreaterThan(before);
  },
);

test("a dedicated connection continues to block across a restart, and is closed with the rest", async () => {
  const redis = await startRedis();
  const kv = await openKv(redis.url);
  const blocking = kv.dedicated();
  const popped = blocking.blpop(kv.key("list"), 0);
  await redis.restart();
  await until(() => kv.check().then(() => true), { what: "the store to be back" });
  await kv.ask((client) => client.rpush(kv.key("list"), "x"));
  expect(await popped).toEqual([kv.key("list"), "x"]);
  await kv.close();
  await until(() => blocking.status === "end", { what: "the connection to end" });
});

test("a server that the client comes back to gets what it lost, also when it was led to another one meanwhile", async () => {
  const [one, two] = [await startRedis(), await startRedis()];
  const way = await cuttableWay(one.port);
  const kv = await openKv(`redis://127.0.0.1:${way.port}`);
  const begun: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = Promise.withResolvers<unknown>();
  kv.onReplaced(async (ask, server) => {
    begun.push(server);
    const writing = begun.length === 1 ? gate.promise : Promise.resolve();
    const written = writing.then(() => ask((client) => client.set("restored", server)));
    if (begun.length === 1) written.then(first.resolve, first.resolve);
    await written;
  });
  const read = () => kv.ask((client) => client.get("restored"));
  const early = read().catch((error: unknown) => error);
  await until(() => begun.length === 1);
  way.leadTo(two.port);
  way.interrupt();
  await until(() => begun.length === 2);
  expect(await until(() => read().catch(() => null))).toBe(begun[1]);
  gate.resolve();
  await first.promise;
  expect(await early).toBeInstanceOf(ServiceError);
  expect(String(await early)).not.toContain("(Connection is closed");
  expect(await read()).toBe(begun[1]);
  way.leadTo(one.port);
  way.interrupt();
  await until(async () => (await read().catch(() => null)) === begun[0], { seconds: 10 });
});
