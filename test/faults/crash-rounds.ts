import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isFinal, type Job } from "../../src/contract/job.ts";
import type { JobRecord } from "../../src/store/job-record.ts";
import { processesMarked } from "../processes.ts";
import { git, makeRemoteIn } from "../remote.ts";
import { spawnService, type Service } from "../service-process.ts";
import { until } from "../until.ts";
import { isSaved } from "./saved-work.ts";
import { agentJournal } from "../fake-agent/journal.ts";

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
  'scenario: paced {"steps": 4, "ms": 60}',
  'scenario: paced {"steps": 3, "ms": 20, "linger": true}',
  "scenario: commit-dirt",
];

/**
 * Kills the service with SIGKILL at random moments while it runs jobs, starts it again, and checks after each that every
 * job is settled by the rules, that no agent is left, that none ran twice for an attempt, and that no work is gone.
 */
export const crashRounds = async ({ directory, rounds, random, onRound }: Options): Promise<Tally> => {
  const remote = await makeRemoteIn(directory);
  const { path: agentLog, env: noting } = await agentJournal(directory);
  const env = { ...noting, SERVICE_AGENT_SANDBOX: "bwrap" };
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
        tasks.map((task) =>
          service.client.run_task({ task, repo_url: remote.path }).then(({ job }) => job.id),
        ),
      );
      tally.jobs += submitted.length;
      // The first kill meets jobs whatever the machine and chance do.
      await delay(random() * (round === 1 ? 200 : 1200));
      await service.kill();
      tally.kills += 1;
      await noteStages(directory, submitted, tally);
      service = await spawnService({ home: directory, env });
      await checkSettled({ service, submitted, tally, started: performance.now() });
      await checkOutcomes({ service, submitted, tally, agentLog, directory, remote: remote.path });
      onRound?.(round, tally);
    }
  } finally {
    await service.kill();
  }
  return tally;
};

const noteStages = async (home: string, ids: string[], tally: Tally): Promise<void> => {
  for (const id of ids) {
    const record = await readRecord(home, id);
    const stage =
      record.status === "running" ? (record.process === null ? "preparing" : "agent at work") : record.status;
    tally.stages[stage] = (tally.stages[stage] ?? 0) + 1;
  }
};

const readRecord = async (home: string, id: string): Promise<JobRecord> =>
  JSON.parse(await readFile(join(home, ".service", "jobs", `${id}.json`), "utf8")) as JobRecord;

type Round = { service: Service; submitted: string[]; tally: Tally };

/** Within 5 s of listening no job is left as the dead service had it: an attempt that is running was begun by this one. */
const checkSettled = async ({
  service,
  submitted,
  tally,
  started,
}: Round & { started: number }): Promise<void> => {
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
    { what: "the jobs of the dead service to be settled" },
  );
  const took = performance.now() - started;
  tally.slowestSettleMs = Math.max(tally.slowestSettleMs, took);
  if (took > 5000) tally.faults.push(`settling took ${Math.round(took)} ms`);
};

type Outcomes = Round & { agentLog: string; directory: string; remote: string };

const checkOutcomes = async ({
  service,
  submitted,
  tally,
  agentLog,
  directory,
  remote,
}: Outcomes): Promise<void> => {
  for (const id of submitted) {
    const job = await until(
      async () => {
        // Its state is told first, then its work is saved. What is on disk is told a moment later.
        const { unsettled, salvage_ref } = await readRecord(directory, id);
        const { job: now } = await service.client.get_job({ job_id: id });
        return isFinal(now.status) && !unsettled && now.salvage_ref === salvage_ref ? now : null;
      },
      { seconds: 60, what: `job ${id} to end` },
    );
    const notes = (await readNotes(agentLog)).filter((note) => note.job === id);
    const agents = notes.filter((note) => note.pid !== undefined).length;
    const fault = (what: string): void =>
      void tally.faults.push(`job ${id} (${job.status}, attempt ${job.attempt}): ${what}`);
    const right =
      job.status === "succeeded" || (job.status === "failed" && job.failure_reason === "instance_lost");
    if (!right) fault(`${job.failure_reason}: ${job.error}`);
    if (job.status === "succeeded") tally.succeeded += 1;
    if (job.status === "failed") tally.lost += 1;
    if (job.attempt > 1) tally.requeued += 1;
    if (agents > 1) fault(`${agents} agents were given the task`);
    if (job.status === "succeeded" && agents !== 1) fault("succeeded without an agent");
    if (processesMarked(id).length > 0) fault("a process of the job is left");
    await checkWork({ job, notes, directory, remote, fault });
  }
};

/** What the agent noted as written or committed is on the pushed branch, or under the salvage ref of a job that failed. */
const checkWork = async ({ job, notes, directory, remote, fault }: Work): Promise<void> => {
  const wrote = notes.flatMap((note) => note.wrote ?? []);
  const committed = notes.flatMap((note) => note.committed ?? []);
  if (wrote.length === 0) return;
  const cache = (await readdir(join(directory, "service-repos"))).find((name) => /^[0-9a-f]{12}$/.test(name));
  const succeeded = job.status === "succeeded";
  const repository = succeeded ? remote : join(directory, "service-repos", String(cache), "saved.git");
  const ref = String(succeeded ? job.branch : job.salvage_ref);
  const names = (await git(repository, "ls-tree", "--name-only", ref).catch(() => "")).split("\n");
  for (const file of wrote) {
    const isThere = succeeded ? names.includes(file) : await isSaved(repository, ref, file);
    if (!isThere) fault(`${file} is not in ${ref}`);
  }
  for (const commit of committed) {
    await git(repository, "merge-base", "--is-ancestor", commit, ref).catch(() =>
      fault(`${commit} is not in ${ref}`),
    );
  }
};

type Work = { job: Job; notes: Note[]; directory: string; remote: string; fault: (what: string) => void };

/** A line of the fake agent's log: it was given a task (`pid`), it wrote a file, it made a commit. */
type Note = { job: string; pid?: number; wrote?: string; committed?: string };

const readNotes = async (path: string): Promise<Note[]> => {
  const text = await readFile(path, "utf8").catch(() => "");
  return text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Note);
};
