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
