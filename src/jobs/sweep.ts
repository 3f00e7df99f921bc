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
  /** Ids of jobs that this instance claims, works on or settles; null: unknown at present. */
  ownRuns: () => ReadonlySet<string> | null;
};

/** Interval at which waiting jobs are checked, ms. */
const queueInterval = 5000;

/** Acts for lost instances. Every instance does it: each step is a compare-and-set, so doing it twice does no harm. */
export const createSweep = (deps: Dependencies) => {
  const { presence } = deps;
  const each = createEach(deps.log);
  const runs = createRunsSweep({ ...deps, each });
  const waiting = createQueueSweep({ ...deps, each });
  let queueLookedAt = Number.NEGATIVE_INFINITY;

  const forgetWhenAway = (error: unknown): void => {
    // Earlier readings may come from a store that was about to become unreachable.
    if (failureOf(error) !== "away") return;
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
    /** A round of an instance that shares its store with no other. Rejects when the store fails. */
    ownRound: runs.lookAfterOwn,
  };
};
