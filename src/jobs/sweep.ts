import { failureOf } from "../kv/failure.ts";
import { createEach } from "./sweep-each.ts";
import type { Presence } from "./presence.ts";
import { createQueueSweep } from "./sweep-queue.ts";
import { createRunsSweep } from "./sweep-runs.ts";
import type { Settling } from "./settle.ts";

type Dependencies = Settling & {
  presence: Presence;
  settings: { podName: string; lostInstanceGrace: number };
  /** This start of the instance. */
  epoch: string;
  /** Ids of the jobs that this instance claims, works on or settles; null: that is not to be gone by. */
  ownRuns: () => ReadonlySet<string> | null;
};

/** How often jobs that wait are looked after, ms. */
const queueInterval = 5000;

/**
 * Does for instances that are lost what they cannot do themselves. Every instance does it: each step is a
 * compare-and-set, so that doing it twice does no harm.
 */
export const createSweep = (deps: Dependencies) => {
  const { presence } = deps;
  const each = createEach(deps.log);
  const runs = createRunsSweep({ ...deps, each });
  const waiting = createQueueSweep({ ...deps, each });
  let queueLookedAt = Number.NEGATIVE_INFINITY;

  const forgetWhenAway = (error: unknown): void => {
    // What was seen until now may have been seen through a store that was going away.
    if (failureOf(error) !== "unreachable") return;
    presence.forget();
    runs.forget();
  };

  return {
    /** One round, to be repeated about every second. Rejects when the store fails. */
    round: async (): Promise<void> => {
      try {
        await presence.refresh();
        await runs.lookAfterRuns();
        if (performance.now() - queueLookedAt < queueInterval) return;
        await waiting.lookAfterQueue();
        queueLookedAt = performance.now();
      } catch (error) {
        forgetWhenAway(error);
        throw error;
      }
    },
    /** A round of an instance that shares its store with nobody. Rejects when the store fails. */
    ownRound: runs.lookAfterOwn,
  };
};
