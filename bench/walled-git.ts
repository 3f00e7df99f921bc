import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { atMost, median, type Figure } from "./statistics.ts";

type Job = { ms: number; walled: number };

const jobIn = (checkout: string, mode: string): Job => {
  const script = join(import.meta.dirname, "walled-git-job.ts");
  return JSON.parse(execFileSync(process.execPath, [script, checkout, mode], { encoding: "utf8" })) as Job;
};

/** As often as each mode is compared. */
const pairs = 9;

const limits = { bwrap: 2, landlock: 1.5, off: 1.2 };

/**
 * All git of a job that changes two of 1,000 files and pushes, beside the same with the code of another checkout:
 * `npm run bench -- walled-git --baseline DIRECTORY`. Without one only the processes behind the wall are counted.
 */
export const walledGit = async (): Promise<Figure[]> => {
  const own = join(import.meta.dirname, "..");
  const baseline = process.env["BENCH_BASELINE"];
  const figures: Figure[] = [];
  for (const [mode, most] of Object.entries(limits)) {
    const { walled } = jobIn(own, mode);
    if (mode !== "off") figures.push(processes(mode, walled));
    if (baseline !== undefined) figures.push(time(mode, pairsOf(own, baseline, mode), most));
  }
  return figures;
};

const pairsOf = (own: string, baseline: string, mode: string): { now: number[]; before: number[] } => {
  const found = { now: new Array<number>(), before: new Array<number>() };
  for (let pair = 0; pair < pairs; pair += 1) {
    // Neither is always the first.
    const order = pair % 2 === 0 ? (["before", "now"] as const) : (["now", "before"] as const);
    for (const which of order) found[which].push(jobIn(which === "now" ? own : baseline, mode).ms);
  }
  return found;
};

const mostWalled = 24;

const processes = (mode: string, walled: number): Figure => ({
  what: `walled-git ${mode}: git processes behind the wall for a job that changes and pushes`,
  ours: String(walled),
  baseline: `${mostWalled} allowed`,
  value: walled / mostWalled,
  unit: "x",
  target: "≤ 1 ×",
  met: atMost(walled, mostWalled),
});

const time = (mode: string, { now, before }: ReturnType<typeof pairsOf>, most: number): Figure => {
  const ratio = median(now.map((ms, pair) => ms / (before[pair] ?? Number.NaN)));
  return {
    what: `walled-git ${mode}: all git of that job, 1,000 files, ${pairs} pairs`,
    ours: `${median(now).toFixed(0)} ms`,
    baseline: `${median(before).toFixed(0)} ms`,
    value: ratio,
    unit: "x",
    target: `≤ ${most} ×`,
    met: atMost(ratio, most),
  };
};
