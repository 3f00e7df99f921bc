import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isFinal, type Job } from "../../src/contract/job.ts";
import { processesMarked } from "../processes.ts";
import { git, makeRemoteIn } from "../remote.ts";
import { spawnService, type Service } from "../service-process.ts";
import { until } from "../until.ts";

type Options = {
  /** Directory to work in. */
  directory: string;
  rounds: number;
  /** A number in [0, 1), as Math.random. */
  random: () => number;
  /** Told after each round, for a program that shows progress. */
  onRound?: (round: number, tally: Tally) => void;
};

export type Tally = {
  kills: number;
  jobs: number;
  succeeded: number;
  lost: number;
  /** Jobs that were queued again because their agent had not been started. */
  requeued: number;
  slowestSettleMs: number;
  /** Stage at which jobs were when the service was killed. */
  stages: Record<string, number>;
  faults: string[];
};

const tasks = [
  'scenario: work {"ms": 150}',
  'scenario: commit-and-dirt {"ms": 100}',
  'scenario: remember {"ms": 300, "dirt": true}',
];

/**
 * Kills the service with SIGKILL at random moments while it runs jobs, starts it again, and checks after each that every
 * job is settled by the rules, that no agent is left, that none ran twice for an attempt, and that no work is gone.
 */
export const crashRounds = async ({ directory, rounds, random, onRound }: Options): Promise<Tally> => {
  const remote = await makeRemoteIn(directory);
  const agentLog = join(directory, "agents.ndjson");
  const env = { FAKE_AGENT_LOG: agentLog, SERVICE_AGENT_ENV: "FAKE_AGENT_LOG", SERVICE_LOG_LEVEL: "warn" };
  const tally: Tally = {
    kills: 0,
    jobs: 0,
    succeeded: 0,
    lost: 0,
    requeued: 0,
    slowestSettleMs: 0,
    stages: {},
    faults: [],
  };
  let service = await spawnService({ home: directory, env });
  try {
    for (let round = 1; round <= rounds; round += 1) {
      const submitted = await Promise.all(
        tasks.map((task) => service.client.run_task({ task, repo_url: remote.path }).then(({ job }) => job.id)),
      );
      tally.jobs += submitted.length;
      await delay(random() * 1200);
      await service.kill();
      tally.kills += 1;
      await noteStages(directory, submitted, tally);
      service = await spawnService({ home: directory, env });
      await checkSettled({ service, submitted, tally, started: performance.now() });
      await checkOutcomes({ service, submitted, tally, agentLog, directory });
      onRound?.(round, tally);
    }
  } finally {
    await service.kill();
  }
  return tally;
};

const noteStages = async (home: string, ids: string[], tally: Tally): Promise<void> => {
  for (const id of ids) {
    const record = JSON.parse(await readFile(join(home, ".service", "jobs", `${id}.json`), "utf8")) as Job & {
      process: object | null;
    };
    const stage = record.status === "running" ? (record.process === null ? "preparing" : "agent at work") : record.status;
    tally.stages[stage] = (tally.stages[stage] ?? 0) + 1;
  }
};

type Round = { service: Service; submitted: string[]; tally: Tally };

/** Within 5 s of listening no job is left as the dead service had it: an attempt that is running was begun by this one. */
const checkSettled = async ({ service, submitted, tally, started }: Round & { started: number }): Promise<void> => {
  const before = new Map<string, Job>();
  for (const id of submitted) before.set(id, (await service.client.get_job({ job_id: id })).job);
  const stale = [...before.values()].filter((job) => job.status === "running" && job.attempt === 1);
  await until(
    async () => {
      for (const { id } of stale) {
        const { job } = await service.client.get_job({ job_id: id });
        if (job.status === "running" && job.attempt === 1) return false;
      }
      return true;
    },
    { seconds: 30, what: "the jobs of the dead service to be settled" },
  );
  const took = performance.now() - started;
  tally.slowestSettleMs = Math.max(tally.slowestSettleMs, took);
  if (took > 5000) tally.faults.push(`settling took ${Math.round(took)} ms`);
};

const checkOutcomes = async ({ service, submitted, tally, agentLog, directory }: Round & { agentLog: string; directory: string }) => {
  for (const id of submitted) {
    const job = await until(
      async () => {
        const { job: now } = await service.client.get_job({ job_id: id });
        return isFinal(now.status) ? now : null;
      },
      { seconds: 60, what: `job ${id} to end` },
    );
    const runs = (await readLines(agentLog)).filter((line) => line.job === id);
    const fault = (what: string): void => void tally.faults.push(`job ${id} (${job.status}, attempt ${job.attempt}): ${what}`);
    const right = job.status === "succeeded" || (job.status === "failed" && job.failure_reason === "instance_lost");
    if (!right) fault(`${job.failure_reason}: ${job.error}`);
    if (job.status === "succeeded") tally.succeeded += 1;
    if (job.status === "failed") tally.lost += 1;
    if (job.attempt > 1) tally.requeued += 1;
    if (job.attempt > 1 && runs.length > 1) fault(`${runs.length} agents were given the task`);
    if (runs.length > 1) fault("two agents for one job");
    if (job.status === "succeeded" && runs.length !== 1) fault("succeeded without an agent");
    if (processesMarked(id).length > 0) fault("a process of the job is left");
    await checkWork({ job, runs, directory, fault });
  }
};

type Work = { job: Job; runs: AgentRun[]; directory: string; fault: (what: string) => void };

/** What the agent says it has written or committed is on the branch, or under the salvage ref when the job failed. */
const checkWork = async ({ job, runs, directory, fault }: Work): Promise<void> => {
  if (job.status === "succeeded" || runs.length === 0) return;
  const [cache] = await cacheDirectories(directory);
  const worked = job.salvage_ref !== null;
  if (worked && cache !== undefined) {
    const found = await git(cache, "cat-file", "-t", String(job.salvage_ref)).catch(() => "");
    if (found !== "commit") fault(`${job.salvage_ref} is not there`);
  }
};

type AgentRun = { job: string; pid: number };

const readLines = async (path: string): Promise<AgentRun[]> => {
  const text = await readFile(path, "utf8").catch(() => "");
  return text.split("\n").filter(Boolean).map((line) => JSON.parse(line) as AgentRun);
};

const cacheDirectories = async (home: string): Promise<string[]> => {
  const { readdir } = await import("node:fs/promises");
  const root = join(home, "service-repos");
  return (await readdir(root)).map((key) => join(root, key, "repo.git"));
};
