import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

/** Resident memory of a process, the least of twenty seconds, MB: what is more in between is garbage not yet collected. */
export const rssOf = async (pid: number): Promise<number> => {
  let least = Number.POSITIVE_INFINITY;
  for (let n = 0; n < 40; n += 1) {
    await delay(500);
    const status = readFileSync(`/proc/${pid}/status`, "utf8");
    least = Math.min(least, Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024);
  }
  return least;
};
