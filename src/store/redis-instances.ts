import { readlink } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { failureOf } from "../kv/failure.ts";
import type { Kv } from "../kv/kv.ts";
import type { Log } from "../lib/log.ts";
import { isAlive, type ProcessIdentity } from "../lib/process/identity.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { InstanceFacts, type Instances } from "./instances.ts";
import { createRedisLeases } from "./redis-leases.ts";

type Options = {
  kv: Kv;
  /** Name of this instance. */
  name: string;
  /** Identity of this process; null: unknown. */
  self: ProcessIdentity | null;
  leaseSeconds: number;
  log: Log;
};

/** Names of instances without a lease for this long are removed, ms. */
const forgetAfter = 86_400_000;

/** How often the name is announced again, ms. */
const announceEvery = 60_000;

/** A lease per instance, whose text holds the instance's facts, and a sorted set of all names. */
export const createRedisInstances = ({ kv, name, self, leaseSeconds, log }: Options): Instances => {
  const ms = leaseSeconds * 1000;
  const leases = createRedisLeases(kv, (instance) => kv.key("pod", instance));
  const names = kv.jobKey("pods");
  const warnings = createWarnOnce();
  let epoch = "";

  const markOf = (start: string): string => `"epoch":"${start}"`;

  const textOf = async (facts: InstanceFacts): Promise<string> => {
    const lease: Lease = { facts, process: self, pid_namespace: await pidNamespace(), lease_ms: ms };
    return JSON.stringify(lease);
  };

  let announced = 0;
  /** Other instances find the lease by its name. */
  const announce = async (): Promise<void> => {
    const at = kv.now().getTime();
    await kv.ask((client) => client.zadd(names, String(at), name));
    announced = at;
  };

  /** Null: there is no lease, or it is unreadable and counts as none. */
  const factsOf = async (instance: string): Promise<InstanceFacts | null> => {
    const text = await leases.get(instance).catch((error: unknown) => {
      if (failureOf(error) !== "value") throw error;
      return "";
    });
    if (text === null) return null;
    const facts = parseLease(text)?.facts ?? null;
    if (facts === null)
      warnings.once(instance, () =>
        log.warn({ instance }, "the lease of an instance cannot be read; the instance counts as stopped"),
      );
    return facts;
  };

  /** A living holder renews every quarter of its lease. */
  const isRenewed = async (holderMs: number): Promise<boolean> => {
    await delay(0.3 * holderMs);
    return (await leases.left(name)) > 0.7 * holderMs;
  };

  /** @throws when the holder of the lease is alive */
  const requireFree = async (found: string): Promise<void> => {
    const holder = parseLease(found);
    if (holder?.facts.epoch === epoch) return;
    const alive = holder === null ? null : await isHolderAlive(holder, self);
    if (alive === false) return;
    if (alive === true || (await isRenewed(holder?.lease_ms ?? ms)))
      throw new Error(
        `Another instance that is running has the name ${name}; give each instance a SERVICE_POD_NAME of its own`,
      );
  };

  return {
    join: async (facts) => {
      ({ epoch } = facts);
      const text = await textOf(facts);
      for (;;) {
        const seen = await leases.get(name);
        if (seen !== null) await requireFree(seen);
        if (await leases.take(name, { seen, text, ms })) break;
      }
      await announce();
      const before = kv.now().getTime() - forgetAfter;
      await kv.ask((client) => client.zremrangebyscore(names, "-inf", String(before)));
    },

    renew: async (facts) => {
      const text = await textOf(facts);
      const result = await leases.renew(name, { mark: markOf(facts.epoch), text, ms, anew: true });
      const isDue = kv.now().getTime() - announced > announceEvery;
      if (result === "lapsed" || (result === "renewed" && isDue)) await announce();
      return result;
    },

    leave: () => leases.release(name, markOf(epoch)),

    list: async () => {
      const known = await kv.ask((client) => client.zrange(names, "0", "-1"));
      const found = await Promise.all(known.map(factsOf));
      return found.filter((facts) => facts !== null).toSorted((a, b) => (a.name < b.name ? -1 : 1));
    },

    askToDrain: async (instance, seconds) => {
      const flag = kv.key("pod", instance, "draining");
      if (seconds > 0) await kv.ask((client) => client.set(flag, "1", "EX", seconds));
      else await kv.ask((client) => client.del(flag));
    },

    isAskedToDrain: async () =>
      (await kv.ask((client) => client.exists(kv.key("pod", name, "draining")))) === 1,
  };
};

/** The text of an instance's lease. */
const Lease = z.object({
  facts: InstanceFacts,
  /** Null: unknown. */
  process: z.object({ pid: z.int(), start_time: z.string(), boot_id: z.string() }).nullable(),
  pid_namespace: z.string(),
  lease_ms: z.number(),
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
  const here = await pidNamespace();
  if (holder.process === null || self === null || holder.process.boot_id !== self.boot_id) return null;
  if (here === "" || holder.pid_namespace !== here) return null;
  return await isAlive(holder.process);
};
