import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { atLeast, atMost, percentile, type Figure } from "./statistics.ts";
import { writeCorpus } from "./transcript-corpus.ts";
import { sampleQueries } from "./transcript-queries.ts";
import { withDirectory } from "./workbench.ts";

/** Sessions, and bytes of one on average. The growth of the answers is read off the rows with the same name. */
const corpora: [sessions: number, bytes: number][] = [
  [100, 700_000],
  [1000, 700_000],
  [10_000, 70_000],
];

/** First index, looks without news, searches and lists, against `rg` over the same files. */
export const transcripts = async (): Promise<Figure[]> => {
  const figures: Figure[] = [];
  for (const [sessions, bytes] of corpora)
    figures.push(...(await withDirectory((directory) => measure(directory, sessions, bytes))));
  return figures;
};

type Measured = {
  firstIndex: number;
  /** Of the first index, ms. */
  processor: number;
  polls: number;
  search: number;
  list: number;
  sessions: number;
  memory: number;
};

const program = join(import.meta.dirname, "transcript-index.ts");

const measure = async (directory: string, sessions: number, bytes: number): Promise<Figure[]> => {
  const home = join(directory, "home");
  const megabytes = writeCorpus(home, { sessions, bytes }) / 1e6;
  const rg = await ripgrep(home);
  const { stdout } = await run(process.execPath, [program, home, join(directory, "index", "transcripts.db")]);
  const ours = JSON.parse(stdout) as Measured;
  if (ours.sessions !== sessions) throw new Error(`${ours.sessions} of ${sessions} sessions were indexed`);
  const speed = megabytes / (ours.firstIndex / 1000);
  const what = `${sessions} sessions, ${megabytes.toFixed(0)} MB`;
  const time = (name: string, value: number, baseline: string, limit: number): Figure => ({
    what: `${name}, ${what}`,
    ours: `${value.toFixed(1)} ms`,
    baseline,
    value,
    unit: "ms",
    target: `≤ ${limit} ms`,
    met: atMost(value, limit),
  });
  const scan = `rg reads all: ${rg.toFixed(0)} ms`;
  return [
    {
      what: `first index, ${what}`,
      ours: `${(ours.firstIndex / 1000).toFixed(1)} s (${(ours.processor / 1000).toFixed(1)} s of processor)`,
      baseline: `${(megabytes / (rg / 1000)).toFixed(0)} MB/s (rg reads all)`,
      value: speed,
      unit: "MB/s",
      target: "≥ 50 MB/s",
      met: atLeast(speed, 50),
    },
    time("look without news, p95", ours.polls, scan, 50),
    time("search, p95", ours.search, scan, 20),
    time("list, p95", ours.list, scan, 5),
    {
      what: `memory at its peak, ${what}`,
      ours: `${ours.memory.toFixed(0)} MB`,
      baseline: "–",
      value: ours.memory,
      unit: "MB",
      target: "≤ 300 MB",
      met: atMost(ours.memory, 300),
    },
  ];
};

const run = promisify(execFile);

/** `rg` (the Debian package `ripgrep`) for one word of each question; p95, ms. */
const ripgrep = async (home: string): Promise<number> => {
  const times: number[] = [];
  for (const query of sampleQueries(home, 20)) {
    const begun = performance.now();
    const word = query.match(/\w+/)?.[0] ?? "";
    await run("rg", ["--files-with-matches", "--ignore-case", "--fixed-strings", word, home]).catch(
      (error: { code?: unknown }) => {
        // 1: nothing was found.
        if (error.code !== 1) throw error;
      },
    );
    times.push(performance.now() - begun);
  }
  return percentile(times, 0.95);
};
