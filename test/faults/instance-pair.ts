import { join } from "node:path";
import { writeFile } from "node:fs/promises";
import type { Job } from "../../src/contract/job.ts";
import { signalProcess } from "../../src/lib/process/table.ts";
import { asks } from "../asks.ts";
import { agentProcesses } from "../processes.ts";
import { git } from "../remote.ts";
import { startRedis } from "../redis.ts";
import type { Service } from "../service-process.ts";
import { temporaryDirectory } from "../temporary.ts";
import { until } from "../until.ts";
import { createWorld } from "./instance-world.ts";

type Options = {
  slots: string;
  /** As short as it may be, unless given: what is tested is what happens after it. */
  lease?: string;
  /** The way of `one` to the store. */
  way?: (port: number) => Promise<number>;
};

/** Instances `one` and `two`; jobs that are begun before `two` starts run on `one`, for as long as the test wants them to. */
export const startPair = async ({ slots, lease = "2", way }: Options) => {
  const { port, url } = await startRedis();
  const world = await createWorld({
    directory: await temporaryDirectory(),
    kvUrl: url,
    prefix: "pair",
    names: ["one", "two"],
    env: { SERVICE_INSTANCE_LEASE: lease, SERVICE_MAX_PARALLEL_JOBS: slots },
  });
  const ownWay = way === undefined ? url : `redis://127.0.0.1:${await way(port)}`;
  const one = await world.cluster.start("one", { env: { KV_URL: ownWay } });
  let rounds = 0;
  const done = (): string => join(world.controls, `done-${rounds}`);

  return {
    world,
    one,
    startTwo: (): Promise<Service> => world.cluster.start("two"),
    /** The job's agent has committed something and goes on until `finish`. */
    begin: async (profile = "code"): Promise<Job> => {
      const { job } = await one.client.run_task({
        task: `scenario: paced ${JSON.stringify({ until: done(), ms: 800, own: true })}`,
        repo_url: world.remote.path,
        profile,
      });
      await until(async () => (await world.notes()).some((note) => note.job === job.id && note.committed), {
        what: "the agent to have committed something",
      });
      return await asks(one).get(job.id);
    },
    finish: async (): Promise<void> => {
      await writeFile(done(), "");
      rounds += 1;
    },
    agents: (id: string, attempt = 1): number[] =>
      agentProcesses()
        .filter((each) => each.job === id && each.attempt === attempt)
        .map(({ pid }) => pid),
    /** Resolves when the instance has brought a job of its own to its end. */
    works: async ({ client }: Service): Promise<Job> => {
      // Just thawed, it may say once that the store does not answer, and that it is to be asked again.
      const { worktree } = await until(() => client.prepare_worktree({ repo_url: world.remote.path }));
      return await asks({ client }).run({
        task: "scenario: commit-nothing",
        worktree_id: worktree.worktree_id,
      });
    },
    /** Files that are saved under the job's salvage ref. */
    saved: async ({ salvage_ref, repo_url }: Job): Promise<string[]> => {
      const clone = await world.clone();
      if (clone === null) throw new Error(`there is no clone of ${repo_url}`);
      return (await git(clone, "ls-tree", "--name-only", String(salvage_ref))).split("\n");
    },
  };
};

/** What the agent itself runs may be over meanwhile. */
export const freeze = (...pids: number[]): void => {
  for (const pid of pids) signalProcess(pid, "SIGSTOP");
};

export const thaw = (...pids: number[]): void => {
  for (const pid of pids) signalProcess(pid, "SIGCONT");
};
