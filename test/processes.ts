import { readdirSync, readFileSync } from "node:fs";

/** Ids of the living processes that carry the job's mark in their environment; zombies do not count. */
export const processesMarked = (jobId: string): number[] => {
  const pids = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  return pids.map(Number).filter((pid) => {
    try {
      const environment = readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
      return (
        environment.includes(`SERVICE_JOB_ID=${jobId}`) &&
        !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "latin1"))
      );
    } catch {
      // Gone meanwhile, or not ours to read.
      return false;
    }
  });
};
