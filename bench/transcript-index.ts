import { join } from "node:path";
import { keepMemorySteady } from "../src/lib/steady-memory.ts";
import { createCollector } from "../src/transcripts/collector.ts";
import { openTranscriptIndex } from "../src/transcripts/transcript-index.ts";
import { percentile } from "./statistics.ts";
import { sampleQueries } from "./transcript-queries.ts";

/** A process that indexes a home directory and asks the index. Writes what it measured as JSON. */
keepMemorySteady();
const [home = "", database = ""] = process.argv.slice(2);
const none = () => {};
const log = { debug: none, info: none, warn: none, error: none };
const index = openTranscriptIndex({ path: database, log });
const collector = createCollector({
  homes: [home],
  codexHome: join(home, "none"),
  corpus: index,
  log,
  now: () => new Date(),
});

const timed = async (work: () => unknown): Promise<number> => {
  const begun = performance.now();
  await work();
  return performance.now() - begun;
};

const p95 = async (questions: readonly (() => unknown)[]): Promise<number> => {
  const times: number[] = [];
  for (const ask of questions) times.push(await timed(ask));
  return percentile(times, 0.95);
};

/** On a busy machine the time of the processors tells more than the clock. */
const before = process.cpuUsage();
const { signal } = new AbortController();
const firstIndex = await timed(() => collector.collect(signal));
const { user, system } = process.cpuUsage(before);
const polls = await p95(Array.from({ length: 20 }, () => () => collector.collect(signal)));
const queries = sampleQueries(home, 200);
const search = await p95(
  queries.map(
    (query) => () =>
      index.search({
        query,
        project: "",
        limit: 10,
        since: null,
        until: null,
        role: "",
        cursor: "",
        exclude: [],
      }),
  ),
);
const list = await p95(
  Array.from(
    { length: 100 },
    (_, n) => () =>
      index.listSessions({ project: n % 2 === 0 ? "" : "app-3", limit: 20, offset: n, updatedSince: 0 }),
  ),
);
const sessions = index.listSessions({ project: "", limit: 1, offset: 0, updatedSince: 0 }).total;
process.stdout.write(
  JSON.stringify({
    firstIndex,
    processor: (user + system) / 1000,
    polls,
    search,
    list,
    sessions,
    memory: process.resourceUsage().maxRSS / 1024,
  }),
);
index.close();
