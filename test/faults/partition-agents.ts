import { readdirSync, readFileSync } from "node:fs";
import { fakeAgent } from "../service-process.ts";

/** When an agent of each attempt was seen alive first and last, ms since the epoch. */
type Lives = Map<number, { first: number; last: number }>;

const agent = `${fakeAgent}.mjs`;

/** Looks again and again which attempts of a job have a living agent, on whatever host. */
export const watchAgents = (jobId: string) => {
  const lives: Lives = new Map();
  /** Attempts that were seen alive in the same moment. */
  const together: number[][] = [];

  const look = (): void => {
    const attempts = [...new Set(attemptsAlive(jobId))];
    if (attempts.length > 1) together.push(attempts);
    const at = Date.now();
    for (const attempt of attempts) lives.set(attempt, { first: lives.get(attempt)?.first ?? at, last: at });
  };
  const timer = setInterval(look, 25);
  return {
    lives,
    together,
    [Symbol.dispose]: () => clearInterval(timer),
  };
};

const attemptsAlive = (jobId: string): number[] => {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.flatMap((pid) => {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "latin1").split("\0").includes(agent)) return [];
      const environment = readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
      if (!environment.includes(`SERVICE_JOB_ID=${jobId}`)) return [];
      return environment.flatMap(
        (line) => Number(/^SERVICE_JOB_ATTEMPT=(\d+)$/.exec(line)?.[1] ?? NaN) || [],
      );
    } catch {
      // Gone meanwhile.
      return [];
    }
  });
};
