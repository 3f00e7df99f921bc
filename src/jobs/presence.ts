import type { Instances } from "../store/instances.ts";

type Dependencies = {
  instances: Instances;
  settings: { podName: string; instanceLease: number };
  /** When the store last became reachable again, ms of `performance.now()`. */
  backSince: () => number;
  /**
   * Since when all renewals of this instance have succeeded, ms of `performance.now()`; now, if the last one failed.
   */
  renewingSince: () => number;
};

/**
 * Which instances are alive. An instance is lost when this one has seen it without a lease for half a lease, while
 * this one reached the store and renewed its own lease throughout. An outage of the store must not make all instances
 * lost.
 */
export const createPresence = ({ instances, settings, backSince, renewingSince }: Dependencies) => {
  const missingSince = new Map<string, number>();
  const seen = new Set<string>();
  let living = new Set<string>();

  /** How long a missing instance has been known to be missing, ms. */
  const missingFor = (name: string): number => {
    const since = missingSince.get(name);
    if (since === undefined) return 0;
    return Math.max(0, performance.now() - Math.max(since, backSince(), renewingSince()));
  };

  const isLost = (name: string): boolean => missingFor(name) >= (settings.instanceLease * 1000) / 2;

  const noteMissing = (names: Iterable<string>): void => {
    for (const name of names) {
      if (!living.has(name) && !missingSince.has(name)) missingSince.set(name, performance.now());
    }
  };

  return {
    /** Reads which instances are alive. Rejects when the store is unreachable. */
    refresh: async (): Promise<void> => {
      living = new Set((await instances.list()).map(({ name }) => name));
      for (const name of living) {
        seen.add(name);
        missingSince.delete(name);
      }
      noteMissing(seen);
    },
    /** Adds names of instances that occur in records. */
    noteMissing,
    missingFor,
    isLost,
    /**
     * An instance that was alive stays so until it is lost: one reading, just after an outage, proves little. One's
     * own name is always alive.
     */
    isLiving: (name: string): boolean =>
      name === settings.podName || living.has(name) || (seen.has(name) && !isLost(name)),
    forget: (): void => missingSince.clear(),
  };
};

export type Presence = ReturnType<typeof createPresence>;
