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
  /** Told when another start has taken this instance's name: it must end. */
  onSuperseded: () => void;
  log: Log;
};

/** What this instance says about itself now. */
type Facts = () => InstanceFacts;

/** How often an instance looks at its own runs and whether it is asked to drain, ms. */
const interval = 1000;

/** How soon a look at its own runs is repeated that the store did not answer, ms: it may be just back, and so may be this instance. */
const again = 150;

/** How long after the request to drain is gone jobs are taken again, ms: not between the end of a drain and the SIGTERM. */
const afterDrain = 10_000;

/** What an instance does to be one of several: renews its lease, watches its own runs, drains when asked. */
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
    // Others may have settled its jobs meanwhile.
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

  // The store's own connection tells when it cannot be reached.
  const quietly = (err: unknown): void => log.debug({ err }, "the key-value store could not be asked");

  /** A step that gives false is repeated sooner. */
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
    /** Gives the name back; to be called when no run is left. */
    stop: async (): Promise<void> => {
      stopping.abort();
      await loops;
      await lease.leave().catch(quietly);
    },
  };
};
