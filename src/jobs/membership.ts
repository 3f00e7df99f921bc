import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../lib/log.ts";
import type { InstanceFacts, Instances } from "../store/instances.ts";
import type { Renewal } from "../store/redis-leases.ts";
import type { Ownership } from "./ownership.ts";
import type { Queue } from "./queue.ts";

type Dependencies = {
  instances: Instances;
  ownership: Ownership;
  queue: Pick<Queue, "pause" | "resume">;
  lease: InstanceLease;
  /** Called when another process has taken over this instance's name: this one must end. */
  onSuperseded: () => void;
  log: Log;
};

/** The present state of this instance. */
type Facts = () => InstanceFacts;

/** How often an instance checks its own runs, ms; drain requests with each beat. */
const interval = 1000;

/** Delay before an unanswered check is repeated, ms: the store, or this instance, may have just come back. */
const retryDelay = 150;

/** Jobs are accepted again this long after a drain request ended, ms: not between the end of a drain and SIGTERM. */
const afterDrain = 10_000;

/** Takes part in a fleet: renews the instance's lease, checks its runs, drains on request. */
export const createMembership = ({ instances, ownership, queue, lease, onSuperseded, log }: Dependencies) => {
  const stopping = new AbortController();
  const { signal } = stopping;
  const beat = (lease.seconds * 1000) / 4;
  let askedToDrain = false;
  let lastAsked = Number.NEGATIVE_INFINITY;

  const renew = async (facts: Facts): Promise<void> => {
    const result = await lease.renew(facts());
    if (result === "taken") {
      log.error("another instance has started under this instance's name (SERVICE_POD_NAME): this one ends");
      onSuperseded();
    }
    if (result !== "lapsed") return;
    log.warn("the lease of this instance had lapsed: it was frozen, overloaded or cut off from the store");
    // Others may have settled its jobs in the meantime.
    await ownership.checkAll();
  };

  const heedDrain = async (facts: Facts): Promise<void> => {
    const asked = await instances.isAskedToDrain();
    if (asked) lastAsked = performance.now();
    const drains = performance.now() - lastAsked < afterDrain;
    if (drains === askedToDrain) return;
    askedToDrain = drains;
    log.info(drains ? "asked to drain: no new jobs are taken" : "no longer asked to drain");
    if (drains) queue.pause();
    else queue.resume();
    await renew(facts);
  };

  // The store's own connection reports when it is unreachable.
  const quietly = (err: unknown): void => log.debug({ err }, "the key-value store could not be asked");

  /** A step that returns false is repeated sooner. */
  const repeat = async (ms: number, step: () => Promise<void | boolean>): Promise<void> => {
    while (!signal.aborted) {
      const result = await step().catch(quietly);
      await delay(result === false ? Math.min(retryDelay, ms) : ms, undefined, { signal, ref: false }).catch(
        () => undefined,
      );
    }
  };

  let loops: Promise<unknown> = Promise.resolve();

  return {
    start: (facts: Facts): void => {
      loops = Promise.all([
        repeat(beat, () => renew(facts)),
        repeat(Math.min(interval, beat), () => ownership.checkAll()),
        repeat(Math.max(interval, beat), () => heedDrain(facts)),
      ]);
    },
    isDraining: (): boolean => askedToDrain,
    /** Releases the name. Call it once no run is left. */
    stop: async (): Promise<void> => {
      stopping.abort();
      await loops;
      await lease.leave().catch(quietly);
    },
  };
};

/** The lease on this instance's name, with what can be said of it without asking the store. */
export const createInstanceLease = (instances: Instances, leaseSeconds: number) => {
  let renewed = performance.now();
  /** Null: the last renewal failed. */
  let renewingSince: number | null = performance.now();

  const mayHaveLapsed = (): boolean => performance.now() - renewed >= leaseSeconds * 1000;

  return {
    seconds: leaseSeconds,
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
      // The lease counts from the request. In the store it may end later, never earlier.
      renewed = asked;
      // From now, not from the request: the other instances could not renew theirs before either.
      if (renewingSince === null || result === "lapsed") renewingSince = performance.now();
      return result;
    },
    leave: instances.leave,
    /** Judged without the store. */
    mayHaveLapsed,
    /** Since when all renewals have succeeded, ms of `performance.now()`; now, if the last one failed. */
    renewingSince: (): number =>
      renewingSince === null || mayHaveLapsed() ? performance.now() : renewingSince,
  };
};

export type InstanceLease = ReturnType<typeof createInstanceLease>;
