import { readdirSync, readFileSync } from "node:fs";
import type { ProcessIdentity } from "../src/lib/process/identity.ts";
import { visitMarked, type Marker } from "../src/lib/process/table.ts";

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

/** Living processes of agents and what they have started: whose they are. Zombies do not count. */
export const agentProcesses = (): { pid: number; job: string; attempt: number }[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const environment = readFileSync(`/proc/${name}/environ`, "latin1").split("\0");
        const job = valueOf(environment, "SERVICE_JOB_ID");
        if (job === null || /^State:\s+Z/m.test(readFileSync(`/proc/${name}/status`, "latin1"))) return [];
        return [{ pid: Number(name), job, attempt: Number(valueOf(environment, "SERVICE_JOB_ATTEMPT")) }];
      } catch {
        // Gone meanwhile, or not ours to read.
        return [];
      }
    });

const valueOf = (environment: string[], name: string): string | null =>
  environment.find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1) ?? null;

/** Zombies do not count. */
export const isRunning = (pid: number): boolean => {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, "latin1"));
  } catch {
    return false;
  }
};

/** Identities of the living processes that carry the marker. */
export const findMarked = async (marker: Marker): Promise<Pick<ProcessIdentity, "pid" | "start_time">[]> => {
  const found: Pick<ProcessIdentity, "pid" | "start_time">[] = [];
  await visitMarked(marker, (row) => found.push({ pid: row.pid, start_time: row.startTime }));
  return found;
};
