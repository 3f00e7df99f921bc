import type { Instances } from "../store/instances.ts";

type Dependencies = {
  instances: Instances;
  settings: { podName: string; instanceLease: number };
  /** When the store last came back after it had been away, ms of `performance.now()`. */
  backSince: () => number;
  /** Since when this instance's own renewals have succeeded without a break, ms of `performance.now()`; now, if they do not. */
  renewingSince: () => number;
};

/**
 * Who is there. An instance counts as lost when this one has seen it without a lease for half a lease, in contact with
 * the store and able to renew its own all the time: a store that was away, or that took no renewals, must not make all
 * of them lost.
 */
export const createPresence = ({ instances, settings, backSince, renewingSince }: Dependencies) => {
  const missingSince = new Map<string, number>();
  const seen = new Set<string>();
  let living = new Set<string>();

  /** Of one that is not there: for how long that has been known, ms. */
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
    /** Looks who is there now. Rejects when the store is away. */
    refresh: async (): Promise<void> => {
      living = new Set((await instances.list()).map(({ name }) => name));
      for (const name of living) {
        seen.add(name);
        missingSince.delete(name);
      }
      noteMissing(seen);
    },
    /** Makes known the names of instances that others' records tell of. */
    noteMissing,
    missingFor,
    isLost,
    isHere: (name: string): boolean => living.has(name),
    /** One that was here lives until it is lost: one look, just after the store was away, says little. One's own name always lives. */
    isLiving: (name: string): boolean =>
      name === settings.podName || living.has(name) || (seen.has(name) && !isLost(name)),
    forget: (): void => missingSince.clear(),
  };
};

export type Presence = ReturnType<typeof createPresence>;
