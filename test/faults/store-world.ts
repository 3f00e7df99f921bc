import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterFile } from "../cleanup.ts";
import { createCluster } from "../cluster.ts";
import { makeRemoteIn } from "../remote.ts";
import { startRedis } from "../redis.ts";
import type { Service } from "../service-process.ts";
import { agentJournal } from "../fake-agent/journal.ts";

type Options = {
  directory: string;
  /** Names of the instances that are started. */
  names: string[];
  kvUrl: string;
  env?: Record<string, string>;
};

/** Profile whose jobs are run again when their instance is lost. */
export const stubborn = "stubborn";

/** Instances with the fake agent, its journal, a repository, and a profile `stubborn`. */
export const createStoreWorld = async ({ directory, names, kvUrl, env = {} }: Options) => {
  const { path: journal, controls, env: noting } = await agentJournal(directory);
  const remote = await makeRemoteIn(directory);
  const cluster = await createCluster({
    kvUrl,
    directory,
    env: { ...noting, ...env },
  });
  const profiles = join(cluster.shared, "profiles");
  await mkdir(profiles, { recursive: true });
  await writeFile(join(profiles, `${stubborn}.yml`), "extends: code\nretry_lost: true\n");
  const services = await Promise.all(names.map((name) => cluster.start(name)));
  return { journal, controls, remote, cluster, services };
};

/** Of a list that is known to have it. */
export const nth = (services: readonly Service[], at: number): Service => {
  const found = services[at % services.length];
  if (found === undefined) throw new Error("there is no instance");
  return found;
};

/** A Redis as the documentation asks for it: what it has acknowledged is on its disk. */
export const startPromptRedis = async () => {
  const directory = await mkdtemp("/dev/shm/svc-test-");
  afterFile(() => rm(directory, { recursive: true, force: true }));
  return await startRedis({ directory, args: ["--appendfsync", "always"] });
};
