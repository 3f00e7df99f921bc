import { randomUUID } from "node:crypto";
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
import { contentOf, createMemoryCorpus } from "./collector.fixture.ts";
import { followCorpus } from "./follow-corpus.ts";
import { openRedisCorpus } from "./redis-corpus.ts";
import { whileElected } from "./run-collector.ts";
import { openTranscriptIndex } from "./transcript-index.ts";
import { question, quiet } from "./transcript-index.fixture.ts";

let redis: TestRedis;
beforeAll(async () => {
  redis = await startRedis();
});

const never = new AbortController().signal;

const openShared = async (prefix = `t-${randomUUID()}`, url = redis.url) => {
  const kv = await openKv(url, prefix);
  const notifier = createRedisNotifier({ kv, log: quiet });
  afterFile(() => notifier.close());
  return { prefix, kv, corpus: openRedisCorpus({ kv, notifier }) };
};

const openHome = async (
  corpus: Awaited<ReturnType<typeof openShared>>["corpus"],
  { machine = "", home = "" } = {},
) => {
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

const follow = (corpus: Awaited<ReturnType<typeof openShared>>["corpus"], local = createMemoryCorpus()) => {
  const stop = new AbortController();
  const done = followCorpus(corpus, local, { signal: stop.signal, log: quiet });
  const end = async () => {
    stop.abort();
    await done;
  };
  afterFile(end);
  return { local, end };
};

const line = (text: string): string =>
  `${JSON.stringify({ type: "user", uuid: randomUUID(), timestamp: new Date(0).toISOString(), message: { role: "user", content: text } })}\n`;

test.each(redisKinds())(
  "a new, an old and a restarted reader end equal to a full read: %s",
  async (_, start) => {
    const url = await start();
    const { corpus, prefix } = await openShared(undefined, url);
    const home = await openHome(corpus);
    const fresh = createMemoryCorpus();
    const first = follow(corpus);
    await writeFile(home.path("a.jsonl"), line("one") + line("x".repeat(3 * 1024 * 1024)));
    await home.collect();
    await until(async () => (await first.local.sources()).size === 1);
    await first.end();
    await appendFile(home.path("a.jsonl"), line("two"));
    await writeFile(home.path("b.jsonl"), line("b"));
    await writeFile(home.path("c.jsonl"), line("replaced"));
    await home.collect();
    await writeFile(home.path("c.jsonl"), line("c"));
    await home.collect();
    const readers = [
      follow(corpus),
      follow(corpus, first.local),
      follow((await openShared(prefix, url)).corpus),
    ];
    for (const [id, source] of await corpus.sources()) {
      for await (const chunk of corpus.chunksFrom(source, 0)) {
        const collected = chunk.from + chunk.bytes.length;
        await fresh.put(collected === source.collected ? source : { ...source, collected }, [chunk]);
      }
      expect(fresh.bytesOf(id)).toHaveLength(source.collected);
    }
    const expected = await contentOf(fresh);
    expect(Object.keys(expected)).toHaveLength(3);
    for (const { local } of readers)
      await until(async () => JSON.stringify(await contentOf(local)) === JSON.stringify(expected));
  },
);

test("a removal reaches the readers, also one that was away", async () => {
  const { corpus } = await openShared();
  const home = await openHome(corpus);
  await writeFile(home.path("a.jsonl"), line("one"));
  await home.collect();
  const [stays, away] = [follow(corpus), follow(corpus)];
  for (const { local } of [stays, away]) await until(async () => (await local.sources()).size === 1);
  await away.end();
  await corpus.remove([...(await corpus.sources()).keys()]);
  const back = follow(corpus, away.local);
  for (const { local } of [stays, back]) await until(async () => (await local.sources()).size === 0);
});

test("a store that lost everything gets it back from the copies, but not what was removed", async () => {
  const { corpus, kv, prefix } = await openShared();
  const home = await openHome(corpus);
  const content = line("one") + line("x".repeat(3 * 1024 * 1024)) + line("two");
  await writeFile(home.path("a.jsonl"), content);
  await writeFile(home.path("removed.jsonl"), line("removed"));
  await home.collect();
  const [one, other] = [follow(corpus), follow((await openShared(prefix)).corpus)];
  for (const { local } of [one, other]) await until(async () => (await local.sources()).size === 2);
  await rm(home.path("a.jsonl"));
  await home.collect();
  const removed = [...(await corpus.sources()).values()].find(({ name }) => name === "removed");
  await corpus.remove([removed!.id]);
  for (const { local } of [one, other])
    await until(async () => [...(await local.sources()).values()].every(({ deleted }) => deleted));
  const before = await one.local.sources();
  await kv.ask((client) => client.flushall());
  await until(async () => (await corpus.sources()).size === 1);
  expect(await corpus.sources()).toEqual(before);
  const fresh = follow(corpus);
  await until(async () => (await fresh.local.sources()).size === 1);
  const [id = ""] = before.keys();
  for (const { local } of [one, other, fresh])
    expect(local.bytesOf(id).equals(Buffer.from(content))).toBe(true);
});

test("a store that lost everything while an agent writes gets back also what nobody writes to", async () => {
  const { corpus, kv } = await openShared();
  const home = await openHome(corpus);
  for (const name of ["a.jsonl", "gone.jsonl"]) await writeFile(home.path(name), line("one"));
  await home.collect();
  const { local } = follow(corpus);
  await until(async () => (await local.sources()).size === 2);
  await rm(home.path("gone.jsonl"));
  await home.collect();
  await until(async () => [...(await local.sources()).values()].some(({ deleted }) => deleted));
  // The store has a newer version before the reader looks.
  await kv.ask(async (client) => {
    await client.flushall();
    await appendFile(home.path("a.jsonl"), line("two"));
    await home.collect();
  });
  await until(async () => (await corpus.sources()).size === 2);
});

test("what one machine keeps is not forgotten for the retention of another", async () => {
  const { corpus } = await openShared();
  const keeper = await openHome(corpus, { machine: "one" });
  await writeFile(keeper.path("a.jsonl"), line("of one"));
  await utimes(keeper.path("a.jsonl"), 1, 1);
  await keeper.collect();
  const [source] = [...(await corpus.sources()).values()];
  await corpus.put({ ...source!, deleted: true }, []);
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
  const { corpus } = await openShared();
  const home = await openHome(corpus);
  await writeFile(home.path("a.jsonl"), line("one"));
  await home.collect();
  const [source] = [...(await corpus.sources()).values()];
  const bytes = Buffer.from("next\n");
  const at = { source_id: source!.id, generation: source!.generation, from: source!.collected, bytes };
  const next = { ...source!, collected: source!.collected + bytes.length };
  const answers = await Promise.all([
    corpus.put(next, [at]),
    corpus.put({ ...next, fingerprint: "other" }, [at]),
  ]);
  expect(answers.toSorted()).toEqual([false, true]);
  const [stored] = [...(await corpus.sources()).values()];
  expect(await corpus.put(stored!, [at])).toBe(true);
  expect((await corpus.sources()).get(source!.id)).toEqual(stored);
});

test("a reader goes on after the store was away", async () => {
  const { corpus, kv } = await openShared();
  const home = await openHome(corpus);
  const { local } = follow(corpus);
  await writeFile(home.path("a.jsonl"), line("one"));
  await home.collect();
  await until(async () => (await local.sources()).size === 1);
  await redis.kill();
  await writeFile(home.path("b.jsonl"), line("two"));
  await expect(home.collect()).rejects.toMatchObject({ code: "store_unavailable" });
  await redis.restart();
  await until(() => kv.check().then(() => true));
  await home.collect();
  await until(async () => (await local.sources()).size === 2);
});

test("SQLite that follows the store answers as SQLite that collects by itself", async () => {
  const { corpus } = await openShared();
  const directory = await temporaryDirectory();
  const open = (name: string) => {
    const index = openTranscriptIndex({ path: join(directory, name), log: quiet });
    afterFile(() => index.close());
    return index;
  };
  const [own, following] = [open("own.db"), open("following.db")];
  const home = join(import.meta.dirname, "../../test/transcripts/fixtures/home");
  for (const into of [own, corpus])
    await createCollector({
      homes: [home],
      codexHome: join(directory, "codex"),
      corpus: into,
      log: quiet,
      now: () => new Date(),
    }).collect(never);
  const stop = new AbortController();
  const done = followCorpus(corpus, following, { signal: stop.signal, log: quiet });
  await until(async () => (await following.sources()).size === (await own.sources()).size);
  const all = { project: "", limit: 100, offset: 0, updatedSince: 0 };
  expect(following.listSessions(all)).toEqual(own.listSessions(all));
  expect(own.listSessions(all).total).toBe(11);
  expect(following.search(question("walrus"))).toEqual(own.search(question("walrus")));
  expect(own.search(question("walrus")).total).toBe(2);
  stop.abort();
  await done;
});

test("of two instances one collects, and the other when that one is gone", async () => {
  const { kv } = await openShared();
  const elected: string[] = [];
  const candidate = (podName: string) => {
    const locks = createRedisLocks({ kv, leaseSeconds: 2, owner: { podName, epoch: "1" } });
    const stop = new AbortController();
    const done = whileElected({ locks, name: "collector", signal: stop.signal }, async (signal) => {
      elected.push(podName);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
    });
    return async () => {
      stop.abort();
      await done;
    };
  };
  const endFirst = candidate("a");
  await until(() => elected.length === 1);
  const endSecond = candidate("b");
  await endFirst();
  await until(() => elected.length === 2);
  expect(elected).toEqual(["a", "b"]);
  await endSecond();
});

test("a file that is deleted is marked for every reader", async () => {
  const { corpus } = await openShared();
  const home = await openHome(corpus);
  await writeFile(home.path("a.jsonl"), line("one"));
  await home.collect();
  const { local } = follow(corpus);
  await until(async () => (await local.sources()).size === 1);
  await rm(home.path("a.jsonl"));
  await home.collect();
  await until(async () => [...(await local.sources()).values()].every(({ deleted }) => deleted));
});
