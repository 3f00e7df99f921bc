import type { Log } from "../lib/log.ts";
import { pause } from "../lib/wait.ts";
import type { InstanceFacts, Instances } from "../store/instances.ts";
import type { Renewal } from "../store/redis-leases.ts";
import type { Ownership } from "./ownership.ts";
import type { Queue } from "./queue.ts";
import type { Worker } from "./worker.ts";

type PresenceDependencies = {
  instances: Instances;
  settings: { podName: string; instanceLease: number };
  /** When the store last became reachable again, ms of `performance.now()`. */
  backSince: () => number;
};

/**
 * Which instances are alive, by the leases on their names. Another one is lost when it had no lease for half a lease in which
 * this one renewed its own throughout: an outage of the store must not make all instances lost.
 */
export const createPresence = ({ instances, settings, backSince }: PresenceDependencies) => {
  const leaseMs = settings.instanceLease * 1000;
  const missingSince = new Map<string, number>();
  const seen = new Set<string>();
  let living = new Set<string>();
  /** When the last successful renewal was requested. In the store the lease may end later, never earlier. */
  let renewed = performance.now();
  /** Since when all renewals have succeeded; null: the last one failed. */
  let renewingSince: number | null = renewed;

  /** Whether this instance's lease may have lapsed, judged without the store. */
  const mayHaveLapsed = (): boolean => performance.now() - renewed >= leaseMs;

  /** How long a missing instance has been known to be missing, ms. */
  const missingFor = (name: string): number => {
    const since = missingSince.get(name);
    if (since === undefined || renewingSince === null || mayHaveLapsed()) return 0;
    return Math.max(0, performance.now() - Math.max(since, backSince(), renewingSince));
  };

  const isLost = (name: string): boolean => missingFor(name) >= leaseMs / 2;

  /** Adds names of instances that occur in records. */
  const noteMissing = (names: Iterable<string>): void => {
    for (const name of names)
      if (!living.has(name) && !missingSince.has(name)) missingSince.set(name, performance.now());
  };

  return {
    /** @throws Error with a sentence for the operator when the name is in use */
    join: async (facts: InstanceFacts): Promise<void> => {
      const asked = performance.now();
      await instances.join(facts);
      renewed = asked;
    },
    renew: async (facts: InstanceFacts): Promise<Renewal> => {
      const asked = performance.now();
      const result = await instances.renew(facts).catch((error: unknown) => {
        renewingSince = null;
        throw error;
      });
      if (result === "taken") return result;
      renewed = asked;
      // From now, not from the request: the other instances could not renew theirs before either.
      if (renewingSince === null || result === "lapsed") renewingSince = performance.now();
      return result;
    },
    mayHaveLapsed,
    /** Reads which instances are alive. Rejects when the store is unreachable. */
    refresh: async (): Promise<void> => {
      living = new Set(await instances.living());
      for (const name of living) {
        seen.add(name);
        missingSince.delete(name);
      }
      noteMissing(seen);
    },
    noteMissing,
    missingFor,
    isLost,
    /** An instance that was alive stays so until it is lost: one reading, just after an outage, proves little. */
    isLiving: (name: string): boolean =>
      name === settings.podName || living.has(name) || (seen.has(name) && !isLost(name)),
    /** Names of the instances that were alive at the last reading, this one included. */
    names: (): ReadonlySet<string> => living,
    forget: (): void => missingSince.clear(),
  };
};

export type Presence = ReturnType<typeof createPresence>;

type Dependencies = {
  instances: Instances;
  presence: Pick<Presence, "renew">;
  ownership: Ownership;
  queue: Pick<Queue, "pause" | "resume">;
  worker: Pick<Worker, "park">;
  settings: { instanceLease: number };
  /** Called when another process has taken over this instance's name: this one must end. */
  onSuperseded: () => void;
  log: Log;
};

/** How often an instance checks its own runs, ms; drain requests with each beat. */
const interval = 1000;

/** Delay before an unanswered check is repeated, ms: the store, or this instance, may have just come back. */
const retryDelay = 150;

/** Jobs are accepted again this long after a drain request ended, ms: not between the end of a drain and SIGTERM. */
const afterDrain = 10_000;

/** Takes part in a fleet: renews the instance's lease, checks its runs, drains on request. */
export const createMembership = (deps: Dependencies) => {
  const { instances, presence, ownership, queue, log } = deps;
  const stopping = new AbortController();
  const { signal } = stopping;
  const beat = (deps.settings.instanceLease * 1000) / 4;
  let askedToDrain = false;
  let lastAsked = Number.NEGATIVE_INFINITY;
  let loops: Promise<unknown> = Promise.resolve();

  const renew = async (facts: InstanceFacts): Promise<void> => {
    const result = await presence.renew(facts);
    if (result === "taken") {
      log.error("another instance has started under this instance's name (SERVICE_POD_NAME): this one ends");
      deps.onSuperseded();
    }
    if (result !== "lapsed") return;
    log.warn("the lease of this instance had lapsed: it was frozen, overloaded or cut off from the store");
    // Others may have settled its jobs in the meantime.
    await ownership.checkAll();
  };

  const heedDrain = async (facts: () => InstanceFacts): Promise<void> => {
    if (await instances.isAskedToDrain()) lastAsked = performance.now();
    const drains = performance.now() - lastAsked < afterDrain;
    if (drains === askedToDrain) return;
    askedToDrain = drains;
    log.info(drains ? "asked to drain: no new jobs are taken" : "no longer asked to drain");
    deps.worker.park(drains);
    if (drains) queue.pause();
    else queue.resume();
    await renew(facts());
  };

  // The store's own connection reports when it is unreachable.
  const quietly = (err: unknown): void => log.debug({ err }, "the key-value store could not be asked");

  /** A step that returns false is repeated sooner. */
  const repeat = async (ms: number, step: () => Promise<void | boolean>): Promise<void> => {
    while (!signal.aborted) {
      const result = await step().catch(quietly);
      await pause(result === false ? Math.min(retryDelay, ms) : ms, signal);
    }
  };

  return {
    start: (facts: () => InstanceFacts): void => {
      loops = Promise.all([
        repeat(beat, () => renew(facts())),
        repeat(Math.min(interval, beat), ownership.checkAll),
        repeat(Math.max(interval, beat), () => heedDrain(facts)),
      ]);
    },
    isDraining: (): boolean => askedToDrain,
    /** Releases the name. Call it once no run is left. */
    stop: async (): Promise<void> => {
      stopping.abort();
      await loops;
      await instances.leave().catch(quietly);
    },
  };
};
