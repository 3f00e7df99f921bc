import { existsSync } from "node:fs";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ClientError } from "../../src/client/client-error.ts";
import type { Client } from "../../src/client/client.ts";
import type { JobRecord } from "../../src/store/job-record.ts";
import { openRedisJobStore } from "../open-stores.ts";
import { createCluster } from "../cluster.ts";
import { openKv } from "../kv.ts";
import { makeRemoteIn } from "../remote.ts";
import type { Service } from "../service-process.ts";
import { until } from "../until.ts";
import { agentJournal } from "../fake-agent/journal.ts";

type Options = {
  directory: string;
  kvUrl: string;
  /** Of the keys; worlds of several prefixes can share one store. */
  prefix: string;
  names: readonly string[];
  env?: Record<string, string | undefined>;
};

/** An instance; `service` is null while it is down or frozen, `env` its own variables. */
export type Instance = {
  name: string;
  home: string;
  service: Service | null;
  frozen: Service | null;
  env: Record<string, string>;
};

/** A line of the fake agent's log: it was given a task (`pid`), it wrote a file, it made a commit. */
export type Note = {
  job: string;
  attempt: number;
  pid?: number;
  at?: string;
  wrote?: string;
  committed?: string;
};

/**
 * Instances on one store with a remote, profiles and an observer of the records: what the fault tests of several
 * instances play in. `stubborn` is a profile with `retry_lost`, `quiet` one that does not push.
 */
export const createWorld = async ({ directory, kvUrl, prefix, names, env = {} }: Options) => {
  const { path: agentLog, controls, env: noting } = await agentJournal(directory);
  const cluster = await createCluster({
    kvUrl,
    directory,
    env: {
      KV_KEY_PREFIX: prefix,
      ...noting,
      ...env,
    },
  });
  const profiles = join(cluster.shared, "profiles");
  await mkdir(profiles, { recursive: true });
  await writeFile(join(profiles, "stubborn.yml"), "extends: code\nretry_lost: true\n");
  await writeFile(join(profiles, "quiet.yml"), "extends: code\nauto_pr: false\n");
  const remote = await makeRemoteIn(directory);
  const kv = await openKv(kvUrl, prefix);
  const store = openRedisJobStore({ kv, podName: "observer", log: silent });
  const instances: Instance[] = names.map((name) => ({
    name,
    home: join(directory, name),
    service: null,
    frozen: null,
    env: {},
  }));

  const living = (): (Instance & { service: Service })[] =>
    instances.filter((each): each is Instance & { service: Service } => each.service !== null);

  return {
    directory,
    /** Files here tell agents to go on. */
    controls,
    cluster,
    remote,
    kv,
    store,
    instances,
    living,
    /** Resolves when it listens. */
    start: async (instance: Instance): Promise<Service> => {
      const service = await cluster.start(instance.name, { env: instance.env });
      instance.service = service;
      return service;
    },
    /** SIGKILL; the instance counts as down from before the signal. */
    kill: async (instance: Instance): Promise<void> => {
      const { service } = instance;
      instance.service = null;
      await service?.kill();
    },
    /** SIGSTOP, of the service alone; the instance counts as down. */
    freeze: (instance: Instance): void => {
      if (instance.service === null) throw new Error(`${instance.name} is down`);
      process.kill(instance.service.pid, "SIGSTOP");
      instance.frozen = instance.service;
      instance.service = null;
    },
    thaw: (instance: Instance): void => {
      if (instance.frozen === null) throw new Error(`${instance.name} is not frozen`);
      process.kill(instance.frozen.pid, "SIGCONT");
      instance.service = instance.frozen;
      instance.frozen = null;
    },
    /** Asks any living instance, another one when that one is gone meanwhile. */
    ask: async <Value>(pick: () => number, call: (client: Client) => Promise<Value>): Promise<Value> => {
      const answer = await until(
        async () => {
          const candidates = living();
          const chosen = candidates[Math.floor(pick() * candidates.length)];
          if (chosen === undefined) return null;
          return await call(chosen.service.client).then(
            (value) => () => value,
            (error: unknown) =>
              isPassing(error)
                ? null
                : () => {
                    throw error;
                  },
          );
        },
        { seconds: 60, what: "an instance that answers" },
      );
      return answer();
    },
    /** The repository of saved work, or the clone until there is some; null: nobody has fetched yet. */
    clone: async (): Promise<string | null> => {
      const root = join(cluster.shared, "repos");
      const key = (await readdir(root)).find((name) => /^[0-9a-f]{12}$/.test(name));
      if (key === undefined) return null;
      const saved = join(root, key, "saved.git");
      return existsSync(saved) ? saved : join(root, key, "repo.git");
    },
    record: (id: string): Promise<JobRecord | null> => store.get(id),
    notes: async (): Promise<Note[]> => {
      const text = await readFile(agentLog, "utf8").catch(() => "");
      return text
        .split("\n")
        .filter(Boolean)
        .map((line) => JSON.parse(line) as Note);
    },
  };
};

export type World = Awaited<ReturnType<typeof createWorld>>;

/** The instance may be going down, the store be away, or a restarted one not be known to the others yet: worth another try. */
const isPassing = (error: unknown): boolean =>
  error instanceof ClientError &&
  (error.status === 0 || error.status === 503 || error.code === "worktree_not_ready");

const nothing = (): void => undefined;
const silent = { debug: nothing, info: nothing, warn: nothing, error: nothing };
