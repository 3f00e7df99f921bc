import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFile, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { afterFile } from "../../test/cleanup.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { createCollector } from "./collector.ts";
import { createMemoryCorpus } from "./collector.fixture.ts";
import type { Corpus } from "./corpus.ts";
import { openTranscriptIndex } from "./transcript-index.ts";
import { question, quiet, userLine } from "./transcript-index.fixture.ts";

const never = new AbortController().signal;

const collectorOf = (home: string, corpus: Corpus, { log = quiet, mostWatched = 4096 } = {}) =>
  createCollector({
    homes: [home],
    codexHome: `${home}/codex`,
    corpus,
    log,
    now: () => new Date(),
    mostWatched,
  });

test("a change is collected soon, long before the next poll, also in a new directory", async () => {
  const home = await temporaryDirectory();
  await mkdir(join(home, "projects"));
  const corpus = createMemoryCorpus();
  const stop = new AbortController();
  const running = collectorOf(home, corpus).run({ pollInterval: 3600, signal: stop.signal });
  const collected = async () =>
    [...(await corpus.sources()).values()].reduce((sum, source) => sum + source.collected, 0);
  await mkdir(join(home, "projects/-p"));
  await writeFile(join(home, "projects/-p/s.jsonl"), "one\n");
  await until(async () => (await collected()) === 4);
  await appendFile(join(home, "projects/-p/s.jsonl"), "two\n");
  await until(async () => (await collected()) === 8);
  stop.abort();
  await running;
});

test("how far a later look is can be told: of a home that fills, and of a call", async () => {
  const home = await temporaryDirectory();
  const write = async (project: string) => {
    await mkdir(join(home, "projects", project), { recursive: true });
    for (const name of ["a", "b"]) await writeFile(join(home, "projects", project, `${name}.jsonl`), "one\n");
  };
  await write("-first");
  const corpus = createMemoryCorpus();
  let gate = Promise.withResolvers<void>();
  const collector = collectorOf(home, {
    ...corpus,
    put: async (source, chunk) => {
      if (!source.path.includes("-first")) await gate.promise;
      return corpus.put(source, chunk);
    },
  });
  const unread = () => {
    const { collected_bytes, total_bytes } = collector.progress();
    return total_bytes - collected_bytes;
  };
  const stop = new AbortController();
  const running = collector.run({ pollInterval: 3600, signal: stop.signal });
  await until(async () => (await corpus.sources()).size === 2);
  await write("-second");
  await until(() => unread() > 0);
  gate.resolve();
  await until(async () => (await corpus.sources()).size === 4);
  stop.abort();
  await running;
  expect(unread()).toBe(0);
  gate = Promise.withResolvers<void>();
  await write("-third");
  const called = collector.collect(never);
  await until(() => unread() === 8);
  gate.resolve();
  await called;
  expect(collector.progress()).toEqual({ collected_bytes: 24, total_bytes: 24 });
});

test("where directories cannot be watched, changes are found at each poll, and the log says so once", async () => {
  const home = await temporaryDirectory();
  const corpus = createMemoryCorpus();
  const stop = new AbortController();
  const warnings: unknown[] = [];
  const log = { ...quiet, warn: (_: unknown, text?: string) => void warnings.push(text) };
  const running = collectorOf(home, corpus, { log, mostWatched: 0 }).run({
    pollInterval: 0.05,
    signal: stop.signal,
  });
  await until(() => warnings.length > 0);
  await mkdir(join(home, "projects/-p"), { recursive: true });
  for (const size of [4, 8]) {
    await appendFile(join(home, "projects/-p/s.jsonl"), "one\n");
    await until(async () => [...(await corpus.sources()).values()][0]?.collected === size);
  }
  stop.abort();
  await running;
  expect(warnings).toEqual(["not all directories can be watched: changes there are found at each poll"]);
});

test("an index is whole whenever the collecting process is killed", async () => {
  const home = await temporaryDirectory();
  const index = join(await temporaryDirectory(), "transcripts.db");
  await mkdir(join(home, "projects/-p"), { recursive: true });
  const written: number[] = [];
  for (let round = 0; round < 3; round += 1) {
    const child = spawn(
      process.execPath,
      [join(import.meta.dirname, "run-collector.fixture.ts"), home, index],
      {
        stdio: ["ignore", "pipe", "inherit"],
      },
    );
    afterFile(() => child.kill("SIGKILL"));
    await once(child.stdout, "data");
    for (let n = 0; n < 5; n += 1) {
      const session = join(home, `projects/-p/s${(round + n) % 7}.jsonl`);
      const lines = Array.from({ length: 50 }, () => written.push(written.length) - 1);
      const text = lines.map((line) => `${JSON.stringify(userLine(`line ${line} of word${line % 10}`))}\n`);
      await appendFile(session, text.join(""));
    }
    await delay(Math.random() * 30);
    const gone = once(child, "exit");
    child.kill("SIGKILL");
    await gone;
  }
  const corpus = openTranscriptIndex({ path: index, log: quiet });
  afterFile(() => corpus.close());
  await collectorOf(home, corpus).collect(never);
  const fresh = openTranscriptIndex({ path: `${index}.fresh`, log: quiet });
  afterFile(() => fresh.close());
  await collectorOf(home, fresh).collect(never);
  const found = (one: typeof corpus): string[] =>
    Array.from({ length: 7 }, (_, n) => {
      const { total, items } = one.entries(`s${n}`, { offset: 0, limit: 10_000, since: null, until: null });
      return `${total} ${items.map(({ content }) => content).join()}`;
    });
  expect(found(corpus)).toEqual(found(fresh));
  expect(found(corpus).reduce((sum, text) => sum + Number.parseInt(text, 10), 0)).toBe(written.length);
  expect(corpus.search(question("word3")).total).toBe(7);
});

test("a look at 1,000 files without news is quick, and an hour of polls takes less than two seconds", async () => {
  const home = await temporaryDirectory();
  for (let n = 0; n < 1000; n += 1) {
    const directory = join(home, `projects/-p${n % 20}`);
    await mkdir(directory, { recursive: true });
    await writeFile(join(directory, `s${n}.jsonl`), '{"type":"user"}\n');
  }
  const corpus = openTranscriptIndex({ path: join(home, "t.db"), log: quiet });
  afterFile(() => corpus.close());
  const { collect, run } = collectorOf(home, corpus);
  await collect(never);
  /** The least processor time of some rounds, ms: neither the machine's other work nor a garbage collection counts. */
  const leastCost = async (rounds: number, work: () => Promise<void>): Promise<number> => {
    const times: number[] = [];
    for (let n = 0; n < rounds; n += 1) {
      const begin = process.cpuUsage();
      await work();
      const { user, system } = process.cpuUsage(begin);
      times.push((user + system) / 1000);
    }
    return Math.min(...times);
  };
  const look = await leastCost(4, async () => {
    expect(await collect(never)).toMatchObject({ files_scanned: 1000, entries_added: 0 });
  });
  expect(look).toBeLessThan(200);
  // A tenth of the polls of an hour, with a look at all files before them.
  const polls = await leastCost(2, () => run({ pollInterval: 0.25, signal: AbortSignal.timeout(1500) }));
  expect(10 * polls).toBeLessThan(2000);
});
