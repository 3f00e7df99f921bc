import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "../src/client/client.ts";
import { isFinal, type Job } from "../src/contract/job.ts";
import { afterFile, cleanUp } from "../test/cleanup.ts";
import { startRedis } from "../test/redis.ts";
import { makeRemote } from "../test/remote.ts";
import { spawnService, type Service } from "../test/service-process.ts";
import { until } from "../test/until.ts";
import { atMost, percentile, type Figure } from "./statistics.ts";
import { withDirectory } from "./workbench.ts";

/** Instances of the large fleet, and the fleet that it is held against. */
const many = Number(process.env["BENCH_FLEET"] ?? 200);
const few = 1;

/** Seconds without jobs before commands are counted, and for which they are. */
const quiet = 30;
const counted = 20;

/** Jobs whose claims are timed, and the pause between two of them, ms. */
const jobs = 100;
const pause = 200;

/**
 * What a fleet costs its store: the commands of each idle instance as clients send them (what scripts do is not counted),
 * the time from a submission to its claim, and what an instance that is killed at work costs the others.
 */
export const fleet = (): Promise<Figure[]> =>
  withDirectory(async (directory) => {
    try {
      const alone = await measured(join(directory, "few"), few);
      const together = await measured(join(directory, "many"), many);
      return figures(alone, together);
    } finally {
      await cleanUp();
    }
  });

type Measured = {
  /** Of one instance, in a second. */
  idleCommands: number;
  claimP95: number;
  /** Of all that are left, in a second, from the kill to its job's end. */
  lossCommands: number;
  /** From the kill to its job's end, s; NaN: nobody is left to end it. */
  lossSeconds: number;
};

const figures = (alone: Measured, together: Measured): Figure[] => [
  {
    what: `commands a second of an idle instance, ${many} on one Redis`,
    ours: together.idleCommands.toFixed(1),
    baseline: `${alone.idleCommands.toFixed(1)} (${few})`,
    value: together.idleCommands / alone.idleCommands,
    unit: "x",
    target: "≤ 3 a second",
    met: atMost(together.idleCommands, 3),
  },
  {
    what: `submission to claim, ${many} instances, p95`,
    ours: `${together.claimP95.toFixed(0)} ms`,
    baseline: `${alone.claimP95.toFixed(0)} ms (${few})`,
    value: together.claimP95,
    unit: "ms",
    target: "≤ 100 ms",
    met: atMost(together.claimP95, 100),
  },
  {
    what: `commands a second while one of ${many} is lost (its job ended after ${together.lossSeconds.toFixed(1)} s)`,
    ours: together.lossCommands.toFixed(0),
    baseline: `${(together.idleCommands * (many - 1)).toFixed(0)} (idle)`,
    value: together.lossCommands / (together.idleCommands * (many - 1)),
    unit: "x",
    target: "reported",
    met: true,
  },
];

/** Services in one process. The one that will be lost has its own. */
const perHost = 50;

const measured = async (directory: string, count: number): Promise<Measured> => {
  const redis = await startRedis();
  await mkdir(directory, { recursive: true });
  const env = { KV_URL: redis.url, SERVICE_LOG_LEVEL: "error" };
  const victim = await spawnService({ home: directory, env: { ...env, SERVICE_POD_NAME: "victim" } });
  const hosts: ChildProcess[] = [];
  for (let first = 1; first < count; first += perHost)
    hosts.push(await startHost(directory, first, Math.min(perHost, count - first), victim.env));
  const claimP95 = percentile(await claimTimes(victim), 0.95);
  await delay(quiet * 1000);
  const idleCommands = (await commandsDuring(redis.url, () => delay(counted * 1000))) / counted / count;
  const loss =
    count === 1 ? { commands: Number.NaN, seconds: Number.NaN } : await lose(victim, hosts, redis.url);
  await victim.kill();
  for (const host of hosts) host.kill("SIGKILL");
  await redis.kill();
  return { idleCommands, claimP95, lossCommands: loss.commands, lossSeconds: loss.seconds };
};

const urlOf = new WeakMap<ChildProcess, string>();

const startHost = async (
  directory: string,
  first: number,
  count: number,
  env: Record<string, string>,
): Promise<ChildProcess> => {
  const args = [join(import.meta.dirname, "fleet-host.ts"), String(first), String(count), directory];
  const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  afterFile(async () => void child.kill("SIGKILL"));
  const [url] = (await once(child.stdout, "data")) as [Buffer];
  urlOf.set(child, url.toString().trim());
  return child;
};

const task = (scenario: string) => ({ task: `scenario: ${scenario}` });

/** From `queued` to `claimed` by the records, ms. */
const claimTimes = async ({ client }: Service): Promise<number[]> => {
  const ids: string[] = [];
  for (let n = 0; n < jobs; n += 1) {
    ids.push((await client.run_task(task("noop"))).job.id);
    await delay(pause);
  }
  const ended = await Promise.all(
    ids.map((id) =>
      until(async () => {
        const { job } = await client.get_job({ job_id: id });
        return isFinal(job.status) ? job : null;
      }),
    ),
  );
  return ended.map((job) => at(job, "claimed") - at(job, "queued"));
};

const at = ({ stages }: Job, wanted: string): number =>
  Date.parse(stages.find(({ stage }) => stage === wanted)?.at ?? "");

/** Kills the instance while it is at work, and waits until the others have ended its job. */
const lose = async (victim: Service, [host]: ChildProcess[], kvUrl: string) => {
  const witness = createClient({ baseUrl: (host && urlOf.get(host)) ?? "" });
  const { worktree } = await victim.client.prepare_worktree({ repo_url: (await makeRemote()).path });
  const bound = { ...task('paced {"steps": 600, "ms": 1000}'), worktree_id: worktree.worktree_id };
  const { id } = (await victim.client.run_task(bound)).job;
  const jobNow = async () => (await witness.get_job({ job_id: id })).job;
  await until(async () => (await jobNow()).stages.some(({ stage }) => stage === "agent_started"));
  const began = performance.now();
  const commands = await commandsDuring(kvUrl, async () => {
    await victim.kill();
    await until(async () => isFinal((await jobNow()).status));
  });
  const seconds = (performance.now() - began) / 1000;
  return { commands: commands / seconds, seconds };
};

/** Commands that clients send while `work` lasts: MONITOR marks with `lua` those of scripts. */
const commandsDuring = async (url: string, work: () => Promise<unknown>): Promise<number> => {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  socket.write("MONITOR\r\n");
  let commands = 0;
  createInterface(socket).on("line", (line) => {
    if (/^\+[\d.]+ \[\d+ (?!lua\])/.test(line)) commands += 1;
  });
  await work();
  socket.destroy();
  return commands;
};
