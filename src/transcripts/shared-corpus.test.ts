import { hash, randomUUID } from "node:crypto";
import { appendFile, mkdir, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { openKv } from "../../test/kv.ts";
import { redisKinds } from "../../test/redis-kinds.ts";
import { startRedis, type TestRedis } from "../../test/redis.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { createRedisNotifier } from "../kv/redis-notifier.ts";
import { createRedisLocks } from "../store/redis-leases.ts";
import { createCollector } from "./collector.ts";
import type { Corpus } from "./corpus.ts";
import { openSharedCorpus } from "./shared-corpus.ts";
import { openTranscriptIndex, type TranscriptIndex } from "./transcript-index.ts";
import { quiet } from "./transcript-index.fixture.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});

const never = new AbortController().signal;

/** An instance with an index of its own, which it has again when it is opened at the same path. */
const openShared = async ({ prefix = `t-${randomUUID()}`, url = redis.url, path = "" } = {}) => {
  path ||= join(await temporaryDirectory(), "t.db");
  const kv = await openKv(url, prefix);
  const notifier = createRedisNotifier({ kv, log: quiet });
  const locks = createRedisLocks({ kv, leaseSeconds: 10, owner: { podName: randomUUID(), epoch: "1" } });
  const index = openTranscriptIndex({ path, log: quiet });
  const corpus = openSharedCorpus({ kv, notifier, locks, index, log: quiet });
  const stop = new AbortController();
  let following: Promise<void> | null = null;
  const end = async () => {
    stop.abort();
    await following;
    await locks.close();
    await notifier.close();
    index.close();
  };
  afterFile(end);
  const follow = () => void (following = corpus.follow(stop.signal));
  return { prefix, path, url, kv, corpus, index, follow, end };
};

type Shared = Awaited<ReturnType<typeof openShared>>;

/** Another instance, which follows the same store. */
const followerOf = async ({ prefix, url }: Shared, path = ""): Promise<Shared> => {
  const other = await openShared({ prefix, url, path });
  other.follow();
  return other;
};

const openHome = async (corpus: Corpus, { machine = "", home = "" } = {}) => {
  home ||= await temporaryDirectory();
  await mkdir(join(home, "projects/-p"), { recursive: true });
  const { collect } = createCollector({
    homes: [home],
    codexHome: join(home, "codex"),
    machine,
    corpus,
    log: quiet,
    now: () => new Date(),
    retentionDays: 1,
  });
  return {
    home,
    path: (name: string) => join(home, "projects/-p", name),
    collect: () => collect(never),
  };
};

const contentOf = async (index: TranscriptIndex): Promise<Record<string, string>> =>
  Object.fromEntries(
    Array.from(await index.sources(), ([id, source]): [string, string] => [
      id,
      `${JSON.stringify(source)} ${hash("sha256", Buffer.concat([...index.chunks(id, 0)]))}`,
    ]).toSorted(([a], [b]) => (a < b ? -1 : 1)),
  );

const untilEqual = async (one: Shared, other: Shared): Promise<void> => {
  await until(
    async () => JSON.stringify(await contentOf(one.index)) === JSON.stringify(await contentOf(other.index)),
  );
};

const line = (text: string): string =>
  `${JSON.stringify({ type: "user", uuid: randomUUID(), timestamp: new Date(0).toISOString(), message: { role: "user", content: text } })}\n`;

test.each(redisKinds())(
  "a new, an old and a restarted reader end equal to the one that collects: %s",
  async (_, start) => {
    const writer = await openShared({ url: await start() });
    const home = await openHome(writer.corpus);
    const first = await followerOf(writer);
    await writeFile(home.path("a.jsonl"), line("one") + line("x".repeat(3 * 1024 * 1024)));
    await home.collect();
    await until(async () => (await first.index.sources()).size === 1);
    await first.end();
    await appendFile(home.path("a.jsonl"), line("two"));
    await writeFile(home.path("b.jsonl"), line("b"));
    await writeFile(home.path("c.jsonl"), line("replaced"));
    await home.collect();
    const stays = await followerOf(writer);
    await until(async () => (await stays.index.sources()).size === 3);
    await writeFile(home.path("c.jsonl"), line("c"));
    await home.collect();
    for (const reader of [stays, await followerOf(writer, first.path), await followerOf(writer)])
      await untilEqual(reader, writer);
    expect(Object.keys(await contentOf(writer.index))).toHaveLength(3);
  },
);

test("a removal reaches the readers, also one that was away", async () => {
  const writer = await openShared();
  const home = await openHome(writer.corpus);
  await writeFile(home.path("a.jsonl"), line("one"));
  await home.collect();
  const [stays, away] = [await followerOf(writer), await followerOf(writer)];
  for (const { index } of [stays, away]) await until(async () => (await index.sources()).size === 1);
  await away.end();
  await writer.corpus.remove([...(await writer.corpus.sources()).keys()]);
  for (const { index } of [stays, await followerOf(writer, away.path)])
    await until(async () => (await index.sources()).size === 0);
});

test("what was removed or read anew is dropped from the store", async () => {
  const writer = await openShared();
  const home = await openHome(writer.corpus);
  await writeFile(home.path("a.jsonl"), line("removed"));
  await writeFile(home.path("b.jsonl"), line("replaced"));
  await writeFile(home.path("c.jsonl"), line("stays"));
  await home.collect();
  await writeFile(home.path("b.jsonl"), line("now this"));
  await home.collect();
  const gone = [...(await writer.corpus.sources()).values()].find(({ name }) => name === "a");
  await writer.corpus.remove([gone!.id]);
  const count = () => writer.kv.ask((client) => client.xlen(`{${writer.prefix}:t}:log`));
  expect(await count()).toBe(5);
  await writer.corpus.compact(never);
  // One entry each for b, c and the removal.
  expect(await count()).toBe(3);
  await untilEqual(await followerOf(writer), writer);
});

test("a store that lost everything gets it back from the copies, but not what was removed", async () => {
  const writer = await openShared();
  const home = await openHome(writer.corpus);
  await writeFile(home.path("a.jsonl"), line("one") + line("x".repeat(3 * 1024 * 1024)) + line("two"));
  await writeFile(home.path("removed.jsonl"), line("removed"));
  await home.collect();
  const [one, other] = [await followerOf(writer), await followerOf(writer)];
  for (const { index } of [one, other]) await until(async () => (await index.sources()).size === 2);
  await rm(home.path("a.jsonl"));
  await home.collect();
  const removed = [...(await writer.corpus.sources()).values()].find(({ name }) => name === "removed");
  await writer.corpus.remove([removed!.id]);
  for (const reader of [one, other]) await untilEqual(reader, writer);
  const before = await contentOf(writer.index);
  await writer.kv.ask((client) => client.flushall());
  const fresh = await followerOf(writer);
  await until(async () => (await fresh.index.sources()).size === 1);
  for (const reader of [one, other, fresh]) await untilEqual(reader, writer);
  expect(await contentOf(fresh.index)).toEqual(before);
});

test("a store that lost everything while an agent writes gets back also what nobody writes to", async () => {
  const writer = await openShared();
  const home = await openHome(writer.corpus);
  for (const name of ["a.jsonl", "b.jsonl"]) await writeFile(home.path(name), line("one"));
  await home.collect();
  await writer.kv.ask((client) => client.flushall());
  await appendFile(home.path("a.jsonl"), line("two"));
  await home.collect();
  await untilEqual(await followerOf(writer), writer);
  expect((await writer.index.sources()).size).toBe(2);
});

test("a store that lost its last writes gets them back from who had read them", async () => {
  const writer = await openShared();
  const home = await openHome(writer.corpus);
  await writeFile(home.path("a.jsonl"), line("one"));
  await home.collect();
  await appendFile(home.path("a.jsonl"), line("two"));
  await home.collect();
  await writer.kv.ask(async (client) => {
    const [[last] = []] = await client.xrevrange(`{${writer.prefix}:t}:log`, "+", "-", "COUNT", 1);
    await client.xdel(`{${writer.prefix}:t}:log`, last ?? "");
  });
  const reader = await followerOf(writer);
  await appendFile(home.path("a.jsonl"), line("three"));
  await home.collect();
  writer.follow();
  await untilEqual(reader, writer);
});

test("what one machine keeps is not forgotten for the retention of another", async () => {
  const { corpus } = await openShared();
  const keeper = await openHome(corpus, { machine: "one" });
  await writeFile(keeper.path("a.jsonl"), line("of one"));
  await utimes(keeper.path("a.jsonl"), 1, 1);
  await keeper.collect();
  const [source] = [...(await corpus.sources()).values()];
  await corpus.put({ ...source!, deleted: true });
  await (await openHome(corpus, { machine: "two" })).collect();
  expect((await corpus.sources()).size).toBe(1);
});

test("two machines with files of their own, also under the same paths, share a store", async () => {
  const { corpus } = await openShared();
  const first = await openHome(corpus, { machine: "one" });
  await writeFile(first.path("a.jsonl"), line("of one"));
  await first.collect();
  await rm(first.path("a.jsonl"));
  const second = await openHome(corpus, { machine: "two", home: first.home });
  await writeFile(second.path("a.jsonl"), line("of two"));
  await writeFile(second.path("b.jsonl"), line("of two"));
  await second.collect();
  const stored = Array.from((await corpus.sources()).values(), ({ machine, name, deleted }) =>
    [machine, name, deleted].join(" "),
  );
  expect(stored.toSorted()).toEqual(["one a false", "two a false", "two b false"]);
});

test("of two writers at one place one is refused, and a command that is sent twice does its work once", async () => {
  const writer = await openShared();
  const other = await openShared({ prefix: writer.prefix });
  const home = await openHome(writer.corpus);
  await writeFile(home.path("a.jsonl"), line("one"));
  await home.collect();
  await other.corpus.catchUp(never);
  const [source] = [...(await writer.corpus.sources()).values()];
  const chunk = { from: source!.collected, bytes: Buffer.from("next\n") };
  const next = { ...source!, collected: source!.collected + chunk.bytes.length };
  const answers = await Promise.all([
    writer.corpus.put(next, chunk),
    other.corpus.put({ ...next, fingerprint: "other" }, chunk),
  ]);
  expect(answers.toSorted()).toEqual([false, true]);
  const [stored] = [...(await writer.corpus.sources()).values()];
  expect(await writer.corpus.put(stored!, chunk)).toBe(true);
  await other.corpus.catchUp(never);
  await untilEqual(other, writer);
});

test("a reader goes on after the store was away", async () => {
  const writer = await openShared();
  const { kv } = writer;
  const home = await openHome(writer.corpus);
  const { index } = await followerOf(writer);
  await writeFile(home.path("a.jsonl"), line("one"));
  await home.collect();
  await until(async () => (await index.sources()).size === 1);
  await redis.kill();
  await writeFile(home.path("b.jsonl"), line("two"));
  await expect(home.collect()).rejects.toMatchObject({ code: "store_unavailable" });
  await redis.restart();
  await until(() => kv.check().then(() => true));
  await home.collect();
  await until(async () => (await index.sources()).size === 2);
});
