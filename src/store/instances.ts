import { readlink } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { failureOf } from "../kv/failure.ts";
import { createScript, type Kv } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { isAlive, type ProcessIdentity } from "../lib/process/identity.ts";
import { poll } from "../lib/wait.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { createRedisLeases, type Renewal } from "./redis-leases.ts";

/** What an instance publishes about itself with each renewal of its lease. */
export const InstanceFacts = z.object({
  name: z.string(),
  /** A UUID made at each start. */
  epoch: z.string(),
  version: z.string(),
  started_at: z.string(),
  running: z.int(),
  max_parallel_jobs: z.int(),
  turns: z.int(),
  draining: z.boolean(),
  /** URL at which others reach it; null: it has none. */
  address: z.string().nullable(),
  agent_mode: z.boolean(),
});
export type InstanceFacts = z.infer<typeof InstanceFacts>;

type Options = {
  kv: Kv;
  /** Name of this instance. */
  name: string;
  /** Identity of this process; null: unknown. */
  self: ProcessIdentity | null;
  leaseSeconds: number;
  log: Log;
};

/**
 * Answers the names whose time is not over, by the store's clock alone: one that is set must not part the instances.
 * Arguments: a name that lives on from now, and for how long, ms.
 */
const livingNames = createScript(`
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if ARGV[1] then redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1]) end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
return redis.call('ZRANGE', KEYS[1], 0, -1)`);

/** Answers who has come. Argument: a name. */
const arrive = createScript(`
redis.call('SADD', KEYS[1], ARGV[1])
redis.call('EXPIRE', KEYS[1], 60)
return redis.call('SMEMBERS', KEYS[1])`);

/**
 * PORT. The instances that share the store. An instance has its name by a lease, whose text holds its facts and which it
 * renews; a sorted set has all names, each with the end of its lease, so that one command tells who lives. One whose lease
 * has expired is dead, frozen or cut off, and the others settle its jobs.
 *
 * Every function rejects with `ServiceError("store_unavailable")` when the store cannot be reached.
 */
export const createRedisInstances = ({ kv, name, self, leaseSeconds, log }: Options) => {
  const ms = leaseSeconds * 1000;
  const leases = createRedisLeases(kv, (instance) => kv.key("pod", instance));
  const names = kv.jobKey("pods");
  const flagOf = (instance: string): string => kv.key("pod", instance, "draining");
  const warnings = createWarnOnce();
  let epoch = "";

  const markOf = (start: string): string => `"epoch":"${start}"`;
  const textOf = async (facts: InstanceFacts): Promise<string> =>
    JSON.stringify({ facts, process: self, pid_namespace: await pidNamespace() } satisfies Lease);

  const announce = (): Promise<unknown> =>
    kv.ask((client) => livingNames(client, [names], [name, String(ms)]));
  const living = async (): Promise<string[]> =>
    (await kv.ask((client) => livingNames(client, [names], []))) as string[];

  /** Null: there is no lease, or it is unreadable and counts as none. */
  const factsOf = async (instance: string): Promise<InstanceFacts | null> => {
    const text = await leases.get(instance).catch((error: unknown) => {
      if (failureOf(error) !== "value") throw error;
      return "";
    });
    const lease = text === null ? null : parseLease(text);
    if (text !== null && lease === null)
      warnings.once(instance, () =>
        log.warn({ instance }, "the lease of an instance cannot be read; the instance counts as stopped"),
      );
    return lease?.facts ?? null;
  };

  /** @throws when the holder of the lease is alive */
  const requireFree = async (found: string): Promise<void> => {
    const holder = parseLease(found);
    if (holder?.facts.epoch === epoch) return;
    let alive = holder === null ? null : await isHolderAlive(holder, self);
    if (alive === null) {
      // A living holder renews every quarter of its lease.
      await delay(0.3 * ms);
      alive = (await leases.left(name)) > 0.7 * ms;
    }
    if (alive)
      throw new Error(
        `Another instance that is running has the name ${name}; give each instance a SERVICE_POD_NAME of its own`,
      );
  };

  return {
    /**
     * Takes this instance's name.
     * @throws Error with a sentence for the operator when another living instance has it
     */
    join: async (facts: InstanceFacts): Promise<void> => {
      ({ epoch } = facts);
      const text = await textOf(facts);
      for (;;) {
        const seen = await leases.get(name);
        if (seen !== null) await requireFree(seen);
        if (await leases.take(name, { seen, text, ms })) break;
      }
      await announce();
    },

    renew: async (facts: InstanceFacts): Promise<Renewal> => {
      const text = await textOf(facts);
      // First, since the others judge by it: the node of a cluster that has the lease may be away.
      await announce();
      return await leases.renew(name, { mark: markOf(facts.epoch), text, ms, anew: true });
    },

    /**
     * Waits until each of these instances has come to a server with what it wrote last, at most half a lease and at least
     * 5 s: sentinels tell each other of a new master every 2 s. `ask`: of the connection to it.
     */
    gather: async (names: ReadonlySet<string>, server: string, ask: Kv["ask"]): Promise<void> => {
      const key = kv.jobKey("gathered", server);
      const isWhole = async (): Promise<true | null> => {
        const arrived = new Set((await ask((client) => arrive(client, [key], [name]))) as string[]);
        return names.isSubsetOf(arrived) || null;
      };
      const deadline = performance.now() + Math.max(ms / 2, 5000);
      await poll(isWhole, { first: 20, longest: 100, signal: new AbortController().signal, deadline });
    },

    /** Releases the name, unless another start has it. */
    leave: async (): Promise<void> => {
      if (await leases.release(name, markOf(epoch))) await kv.ask((client) => client.zrem(names, name));
    },

    /** Names of the instances whose lease is valid. */
    living,

    /** Instances whose lease is valid, by name. */
    list: async (): Promise<InstanceFacts[]> => {
      const found = await Promise.all((await living()).map(factsOf));
      return found.filter((facts) => facts !== null).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    },

    /** Asks an instance to take no new jobs for this long, in seconds; 0 withdraws the request. */
    askToDrain: async (instance: string, seconds: number): Promise<void> => {
      if (seconds > 0) await kv.ask((client) => client.set(flagOf(instance), "1", "EX", seconds));
      else await kv.ask((client) => client.del(flagOf(instance)));
    },

    /** Whether this instance is asked to take no new jobs. */
    isAskedToDrain: async (): Promise<boolean> =>
      (await kv.ask((client) => client.exists(flagOf(name)))) === 1,
  };
};

export type Instances = ReturnType<typeof createRedisInstances>;

/** The text of an instance's lease. */
const Lease = z.object({
  facts: InstanceFacts,
  /** Null: unknown. */
  process: z.object({ pid: z.int(), start_time: z.string(), boot_id: z.string() }).nullable(),
  pid_namespace: z.string(),
});
type Lease = z.infer<typeof Lease>;

/** Null: this version does not know such a lease. */
const parseLease = (text: string): Lease | null => {
  try {
    return Lease.parse(JSON.parse(text));
  } catch {
    return null;
  }
};

/** Containers of one machine share its boot but not its pids: a pid of another namespace means nothing here. */
const pidNamespace = async (): Promise<string> => await readlink("/proc/self/ns/pid").catch(() => "");

/** Whether the lease's process is alive; null: this process cannot see it. */
const isHolderAlive = async (holder: Lease, self: ProcessIdentity | null): Promise<boolean | null> => {
  const { process, pid_namespace } = holder;
  if (process === null || process.boot_id !== self?.boot_id) return null;
  return pid_namespace !== "" && pid_namespace === (await pidNamespace()) ? await isAlive(process) : null;
};

/** Without a shared store this instance is the only one. */
export const createLocalInstances = (): Instances => {
  let self: InstanceFacts | null = null;
  let drainsUntil = 0;

  return {
    join: async (facts) => {
      self = facts;
    },
    renew: async (facts) => {
      self = facts;
      return "renewed";
    },
    gather: async () => undefined,
    leave: async () => {
      self = null;
    },
    living: async () => (self === null ? [] : [self.name]),
    list: async () => (self === null ? [] : [self]),
    askToDrain: async (name, seconds) => {
      if (name === self?.name) drainsUntil = performance.now() + seconds * 1000;
    },
    isAskedToDrain: async () => performance.now() < drainsUntil,
  };
};
