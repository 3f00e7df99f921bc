import { setTimeout as delay } from "node:timers/promises";
import type { Log } from "../lib/log.ts";
import type { InstanceFacts, Instances } from "../store/instances.ts";
import type { InstanceLease } from "./instance-lease.ts";
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

/** How often an instance checks its own runs and drain requests, ms. */
const interval = 1000;

/** Delay before an unanswered check is repeated, ms: the store, or this instance, may have just come back. */
const again = 150;

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
    await ownership.look();
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
      const went = await step().catch(quietly);
      await delay(went === false ? Math.min(again, ms) : ms, undefined, { signal, ref: false }).catch(
        () => undefined,
      );
    }
  };

  let loops: Promise<unknown> = Promise.resolve();

  return {
    start: (facts: Facts): void => {
      loops = Promise.all([
        repeat(beat, () => renew(facts)),
        repeat(Math.min(interval, beat), () => ownership.look()),
        repeat(interval, () => heedDrain(facts)),
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
