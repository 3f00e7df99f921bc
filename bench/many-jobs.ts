import { randomUUID } from "node:crypto";
import { execFile } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { inFiles, requireFormat } from "../src/store/format.ts";
import { sampleRecord } from "../test/ports/job-record-sample.ts";
import { spawnService } from "../test/service-process.ts";
import { atMost, median, percentile, type Figure } from "./statistics.ts";
import { withDirectory } from "./workbench.ts";

const run = promisify(execFile);
const many = 100_000;
const few = 100;

/** Starting with 100,000 job files against reading and parsing them; the newest 20 of them against those of 100. */
export const manyJobs = (): Promise<Figure[]> =>
  withDirectory(async (directory) => {
    const [large, small] = [await home(directory, "large", many), await home(directory, "small", few)];
    const starts: number[] = [];
    const reads: number[] = [];
    for (let round = 0; round < 3; round += 1) {
      reads.push(await readAll(jobsOf(large)));
      starts.push(await timeStart(large));
    }
    const start = median(starts) / median(reads);
    const [ofMany, ofFew] = await listTimes(large, small);
    const list = percentile(ofMany, 0.95) / percentile(ofFew, 0.95);
    return [
      {
        what: "newest 20 of 100,000 jobs over REST, p95",
        ours: `${percentile(ofMany, 0.95).toFixed(2)} ms`,
        baseline: `${percentile(ofFew, 0.95).toFixed(2)} ms (of 100 jobs)`,
        value: list,
        unit: "x",
        target: "≤ 3 ×",
        met: atMost(list, 3),
      },
      {
        what: "start with 100,000 job files",
        ours: `${(median(starts) / 1000).toFixed(2)} s`,
        baseline: `${(median(reads) / 1000).toFixed(2)} s (reading and parsing them)`,
        value: start,
        unit: "x",
        target: "≤ 3 ×",
        met: atMost(start, 3),
      },
    ];
  });

const jobsOf = (homeDirectory: string): string => join(homeDirectory, ".service", "jobs");

const home = async (directory: string, name: string, count: number): Promise<string> => {
  const jobs = jobsOf(join(directory, name));
  mkdirSync(jobs, { recursive: true });
  await requireFormat(inFiles(jobs), { mark: true });
  const now = Date.now();
  for (let n = 0; n < count; n += 1) {
    const at = new Date(now - n * 100).toISOString();
    const record = sampleRecord({
      id: randomUUID(),
      created_at: at,
      ended_at: at,
      status: "succeeded",
      output: "done",
      ttl_seconds: 864_000,
    });
    writeFileSync(join(jobs, `${record.id}.json`), JSON.stringify(record));
  }
  return join(directory, name);
};

/** In a process of its own, as the service is; ms. */
const readAll = async (jobs: string): Promise<number> => {
  const script = `const fs = require("fs"); const all = [];
    for (const name of fs.readdirSync(process.argv[1])) if (name.endsWith(".json")) all.push(JSON.parse(fs.readFileSync(process.argv[1] + "/" + name, "utf8")));
    if (all.length < 1) throw new Error("nothing read")`;
  const begun = performance.now();
  await run(process.execPath, ["-e", script, jobs]);
  return performance.now() - begun;
};

const timeStart = async (homeDirectory: string): Promise<number> => {
  const begun = performance.now();
  const service = await spawnService({ home: homeDirectory, env: { SERVICE_LOG_LEVEL: "error" } });
  const took = performance.now() - begun;
  await service.kill();
  return took;
};

/** Taken in turns, ms. */
const listTimes = async (large: string, small: string): Promise<[number[], number[]]> => {
  const services = await Promise.all(
    [large, small].map((each) => spawnService({ home: each, env: { SERVICE_LOG_LEVEL: "error" } })),
  );
  const times: [number[], number[]] = [[], []];
  try {
    for (let round = 0; round < 1100; round += 1) {
      for (const [at, service] of services.entries()) {
        const begun = performance.now();
        const answer = await fetch(`${service.url}/jobs?limit=20`);
        await answer.arrayBuffer();
        if (round >= 100) times[at]?.push(performance.now() - begun);
      }
    }
  } finally {
    for (const service of services) await service.kill();
  }
  return times;
};
