import { join } from "node:path";
import { isFinal } from "../../src/contract/job.ts";
import { createCluster } from "../cluster.ts";
import { startRedis } from "../redis.ts";
import type { Service } from "../service-process.ts";
import { until } from "../until.ts";
import { runsIn } from "./store-journal.ts";
import { submitOnce } from "./store-submit.ts";
import { agentJournal } from "../fake-agent/journal.ts";

const quickAgent = join(import.meta.dirname, "quick-agent", "quick-agent");

type Options = {
  directory: string;
  /** Jobs, each of which is submitted twice. */
  rounds: number;
  instances?: number;
};

export type Tally = {
  instances: number;
  submissions: number;
  /** Ids that were answered, each once. */
  jobs: number;
  /** Agents that were given a job, by their own account. */
  runs: number;
  succeeded: number;
  /** Jobs that each instance ran. */
  shares: Record<string, number>;
  submitMs: number;
  allMs: number;
  faults: string[];
};

/** How many submissions are under way at once. */
const atOnce = 32;

/**
 * Submits each job twice in the same moment, with the same Idempotency-Key, to two of several instances. One id is to be
 * answered to both, and one agent to be given the job.
 */
export const idempotencyRounds = async ({ directory, rounds, instances = 4 }: Options): Promise<Tally> => {
  const { path: journal, env: noting } = await agentJournal(directory);
  const redis = await startRedis();
  const cluster = await createCluster({
    kvUrl: redis.url,
    directory,
    env: {
      SERVICE_AGENT_CLI_BINARY: quickAgent,
      ...noting,
      SERVICE_MAX_PARALLEL_JOBS: "8",
      // Thousands of runs at once on few processors: nobody is lost here.
      SERVICE_INSTANCE_LEASE: "30",
    },
  });
  const names = Array.from({ length: instances }, (_, at) => `i${at + 1}`);
  const services = await Promise.all(names.map((name) => cluster.start(name)));
  const tally: Tally = {
    instances,
    submissions: 0,
    jobs: 0,
    runs: 0,
    succeeded: 0,
    shares: {},
    submitMs: 0,
    allMs: 0,
    faults: [],
  };
  const ids = new Set<string>();
  const began = performance.now();

  const submitTwice = async (at: number): Promise<void> => {
    const two = [services[at % instances], services[(at + 1 + (at % (instances - 1))) % instances]];
    const body = { task: `Job ${at}` };
    const answers = await Promise.all(
      two.map((service) => submitOnce(service?.url ?? "", body, `key-${at}`)),
    );
    tally.submissions += answers.length;
    for (const { id, status, code } of answers) {
      if (id === null) tally.faults.push(`job ${at} was answered with ${status} ${code}`);
      else ids.add(id);
    }
    if (answers[0]?.id !== answers[1]?.id) tally.faults.push(`job ${at} got two ids`);
  };

  let next = 0;
  const client = async (): Promise<void> => {
    for (let at = next++; at < rounds; at = next++) await submitTwice(at);
  };
  await Promise.all(Array.from({ length: atOnce }, client));
  tally.submitMs = Math.round(performance.now() - began);
  tally.jobs = ids.size;

  const [first] = services;
  if (first !== undefined) await untilAllEnded(first, ids.size);
  tally.allMs = Math.round(performance.now() - began);
  if (first !== undefined) await checkJobs(first, ids, tally);
  const runs = await runsIn(journal);
  tally.runs = [...runs.values()].reduce((sum, count) => sum + count, 0);
  for (const [id, count] of runs) if (count !== 1) tally.faults.push(`${id} was run ${count} times`);
  for (const id of ids) if (!runs.has(id)) tally.faults.push(`${id} was never run`);
  await Promise.all(services.map((service) => service.kill()));
  await redis.kill();
  return tally;
};

/** Ended for their readers, and nothing waits: `expected` is the least that there must be. */
const untilAllEnded = (service: Service, expected: number): Promise<unknown> =>
  until(
    async () => {
      const { jobs } = await service.client.list_jobs({ limit: 1, status: "queued" });
      const { jobs: running } = await service.client.list_jobs({ limit: 1, status: "running" });
      return jobs.length + running.length === 0;
    },
    { seconds: 100 + expected / 10, what: "all jobs to end" },
  );

const checkJobs = async (service: Service, ids: Set<string>, tally: Tally): Promise<void> => {
  let cursor = "";
  let listed = 0;
  do {
    const page = await service.client.list_jobs({ limit: 100, cursor });
    for (const { id, status, attempt, pod_name } of page.jobs) {
      listed += 1;
      if (!ids.has(id)) tally.faults.push(`${id} is listed and was answered to nobody`);
      if (!isFinal(status) || attempt !== 1) tally.faults.push(`${id} is ${status} after attempt ${attempt}`);
      if (status === "succeeded") tally.succeeded += 1;
      tally.shares[pod_name ?? "none"] = (tally.shares[pod_name ?? "none"] ?? 0) + 1;
    }
    cursor = page.next_cursor ?? "";
  } while (cursor !== "");
  if (listed !== ids.size) tally.faults.push(`${listed} jobs are listed of ${ids.size}`);
};
