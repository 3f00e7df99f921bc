import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { Queue as BullQueue, QueueEvents } from "bullmq";
import { Redis } from "ioredis";
import pLimit from "p-limit";
import { loadSettings } from "../src/config/settings.ts";
import { RunTaskInput } from "../src/contract/job.ts";
import { createSubmit } from "../src/jobs/submit.ts";
import { createLog } from "../src/lib/log.ts";
import { openStores } from "../src/main/stores.ts";
import { startRedis, type TestRedis } from "../test/redis.ts";
import { cleanUp } from "../test/cleanup.ts";
import { spawnService } from "../test/service-process.ts";
import { until } from "../test/until.ts";
import { handWriter } from "./scale-records.ts";
import { rssOf } from "./rss.ts";
import { atLeast, atMost, percentile, type Figure } from "./statistics.ts";
import { withDirectory } from "./workbench.ts";
import { randomUUID } from "node:crypto";

/** Jobs of one measurement, at once under way while they are submitted, and run at once by an instance. */
const jobs = 10_000;
const inFlight = 32;
const concurrency = 3;

/** Jobs of the long run, over which memory must stay where it is. */
const longRun = 50_000;

/**
 * From the submission of many jobs to the end of the last, by 1, 2 and 4 instances with an agent that does nothing, against
 * bare BullMQ doing as many no-ops with as many workers, and with the three writes of a record done by hand; memory over a long run, and lists meanwhile.
 */
export const scale = (): Promise<Figure[]> =>
  withDirectory(async (directory) => {
    try {
      const figures: Figure[] = [];
      for (const instances of [1, 2, 4]) {
        const rates: Rates = { ours: [], bare: [], byHand: [] };
        for (let round = 0; round < 3; round += 1) {
          rates.bare.push(await bareRate(instances, ""));
          rates.byHand.push(await bareRate(instances, "records"));
          rates.ours.push(await ourRate(join(directory, `${instances}-${round}`), instances));
        }
        figures.push(...rateFigures(instances, rates));
      }
      figures.push(...(await longFigures(join(directory, "long"))));
      return figures;
    } finally {
      await cleanUp();
    }
  });

/** Jobs a second of each round. */
type Rates = Record<"ours" | "bare" | "byHand", number[]>;

const rateFigures = (instances: number, rates: Rates): Figure[] => {
  const best = (of: keyof Rates): number => Math.max(...rates[of]);
  const count = (what: string): string => `${instances} ${what}${instances === 1 ? "" : "s"}`;
  const figure = { what: `no-op jobs from submission to end, ${count("instance")}`, unit: "x" as const };
  const ours = `${best("ours").toFixed(0)} jobs/s`;
  const byHand = best("ours") / best("byHand");
  return [
    {
      ...figure,
      ours,
      baseline: `${best("bare").toFixed(0)} jobs/s (bare BullMQ, ${count("worker")})`,
      value: best("ours") / best("bare"),
      target: "reported",
      met: true,
    },
    {
      ...figure,
      ours,
      baseline: `${best("byHand").toFixed(0)} jobs/s (BullMQ and three writes of a record by hand, ${count("worker")})`,
      value: byHand,
      target: "≥ 0.6 ×",
      met: atLeast(byHand, 0.6),
    },
  ];
};

const bareRate = async (workers: number, records: "" | "records"): Promise<number> => {
  const redis = await startRedis();
  const children = await Promise.all(
    Array.from({ length: workers }, () =>
      launch("scale-bare.ts", [redis.url, String(concurrency), records], {}),
    ),
  );
  const connection = new Redis(redis.url, { maxRetriesPerRequest: null });
  const write = handWriter(connection);
  const queue = new BullQueue("bare", {
    connection,
    prefix: "{bare}",
    streams: { events: { maxLen: 10 * jobs } },
  });
  const blocking = new Redis(redis.url, { maxRetriesPerRequest: null });
  const events = new QueueEvents("bare", {
    connection: blocking,
    prefix: "{bare}",
    // All there is: one that ends before we listen would be missed.
    lastEventId: "0",
  });
  await events.waitUntilReady();
  let ended = 0;
  const all = Promise.withResolvers<void>();
  events.on("completed", () => {
    ended += 1;
    if (ended === jobs) all.resolve();
  });
  const begun = performance.now();
  const limit = pLimit(inFlight);
  await Promise.all(
    Array.from({ length: jobs }, () => {
      const id = randomUUID();
      return limit(async () => {
        if (records !== "") await write(id, "", "queued");
        await queue.add("run", { id }, { jobId: id, removeOnComplete: true, removeOnFail: true });
      });
    }),
  );
  await all.promise;
  const took = performance.now() - begun;
  await events.close();
  await queue.close();
  for (const one of [connection, blocking]) one.disconnect();
  await end(children);
  await redis.kill();
  return (jobs / took) * 1000;
};

const ourRate = async (directory: string, instances: number): Promise<number> => {
  const redis = await startRedis();
  const children = await startInstances(redis, directory, instances);
  const producer = await openProducer(redis, directory);
  const begun = performance.now();
  await producer.submit(jobs);
  await producer.untilEnded(jobs);
  const took = performance.now() - begun;
  await end(children);
  await producer.close();
  await redis.kill();
  return (jobs / took) * 1000;
};

const longFigures = async (directory: string): Promise<Figure[]> => {
  const redis = await startRedis();
  const [instance] = await startInstances(redis, directory, 1);
  const producer = await openProducer(redis, directory);
  const asked = await spawnService({
    home: directory,
    env: { KV_URL: redis.url, SERVICE_POD_NAME: "asked", SERVICE_LOG_LEVEL: "error" },
  });
  // It answers, but runs none of them.
  const client = new Redis(redis.url);
  await client.set("service:pod:asked:draining", "1");
  const pid = instance?.pid ?? 0;
  const idle = await listTimes(asked.url, 300);
  const memory: number[] = [];
  const times: number[] = [];
  for (let done = 0; done < longRun; done += longRun / 5) {
    const submitted = producer.submit(longRun / 5);
    times.push(...(await listTimes(asked.url, 100)));
    await submitted;
    await producer.untilEnded(done + longRun / 5);
    memory.push(await rssOf(pid));
  }
  client.disconnect();
  await end(instance === undefined ? [] : [instance]);
  await asked.kill();
  await producer.close();
  await redis.kill();
  const [early = 0, late = 0] = [memory[0], memory.at(-1)];
  const growth = late / early;
  const [busy, quiet] = [percentile(times, 0.99), percentile(idle, 0.99)];
  return [
    {
      what: `memory of an instance after ${longRun.toLocaleString("en")} jobs`,
      ours: `${late.toFixed(0)} MB`,
      baseline: `${early.toFixed(0)} MB (after ${(longRun / 5).toLocaleString("en")})`,
      value: growth,
      unit: "x",
      target: "≤ 1.2 ×",
      met: atMost(growth, 1.2),
    },
    {
      what: "GET /jobs while they run, p99",
      ours: `${busy.toFixed(1)} ms`,
      baseline: `${quiet.toFixed(1)} ms (idle)`,
      value: busy / quiet,
      unit: "x",
      target: "reported",
      met: true,
    },
  ];
};

const listTimes = async (url: string, count: number): Promise<number[]> => {
  const times: number[] = [];
  for (let n = 0; n < count; n += 1) {
    const begun = performance.now();
    const answer = await fetch(`${url}/jobs?limit=20`);
    await answer.arrayBuffer();
    if (answer.status !== 200) throw new Error(`GET /jobs answered ${answer.status}`);
    times.push(performance.now() - begun);
  }
  return times;
};

const environment = (redis: TestRedis, directory: string, name: string): Record<string, string> => ({
  PATH: process.env["PATH"] ?? "",
  HOME: directory,
  KV_URL: redis.url,
  SERVICE_POD_NAME: name,
  SERVICE_JOBS_DIR: join(directory, "jobs"),
  SERVICE_MAX_PARALLEL_JOBS: String(concurrency),
  SERVICE_MAX_QUEUED_JOBS: "1000000",
});

const startInstances = (redis: TestRedis, directory: string, count: number): Promise<ChildProcess[]> =>
  Promise.all(
    Array.from({ length: count }, (_, n) =>
      launch("scale-instance.ts", [], environment(redis, directory, `instance-${n}`)),
    ),
  );

/** What accepts jobs, as a service does once it has read the request. */
const openProducer = async (redis: TestRedis, directory: string) => {
  const { settings } = loadSettings({ env: environment(redis, directory, "producer"), home: directory });
  const log = createLog("error", (text) => text);
  const stores = await openStores({ settings, epoch: randomUUID(), log });
  const submit = createSubmit({
    store: stores.jobs,
    queue: stores.queue,
    settings,
    now: stores.now,
    newId: randomUUID,
    taskFiles: stores.taskFiles,
    check: async () => ({
      repoUrl: "",
      profile: { name: "code", model: "sonnet", retryLost: false, rule: "requested" },
    }),
    admit: async () => undefined,
    joinWorktree: () => Promise.reject(new Error("no job names a worktree")),
    instanceWith: async () => null,
  });
  const limit = pLimit(inFlight);
  const input = RunTaskInput.parse({ task: "Do nothing" });
  const context = { signal: new AbortController().signal, principal: "open" };
  return {
    submit: async (count: number): Promise<void> => {
      await Promise.all(Array.from({ length: count }, () => limit(() => submit(input, context))));
    },
    untilEnded: async (count: number): Promise<void> => {
      await until(async () => (await stores.jobs.counts()).succeeded >= count, {
        seconds: 120,
        what: `${count} jobs to end`,
      });
    },
    close: stores.close,
  };
};

const launch = async (
  program: string,
  args: string[],
  env: Record<string, string>,
): Promise<ChildProcess> => {
  const child = spawn(process.execPath, [join(import.meta.dirname, program), ...args], {
    env: { PATH: process.env["PATH"], ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  await once(child.stdout, "data");
  return child;
};

const end = async (children: ChildProcess[]): Promise<void> => {
  for (const child of children) {
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    await exited;
  }
};
