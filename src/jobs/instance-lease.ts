import type { InstanceFacts, Instances, Renewal } from "../store/instances.ts";

/** The lease by which this instance has its name, and what this instance knows of it without asking. */
export const createInstanceLease = (instances: Instances, leaseSeconds: number) => {
  let renewed = performance.now();
  /** Null: the last renewal failed. */
  let renewingSince: number | null = performance.now();

  const mayHaveLapsed = (): boolean => performance.now() - renewed >= leaseSeconds * 1000;

  return {
    seconds: leaseSeconds,
    /** @throws Error with a sentence for the operator when the name is taken */
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
      // The lease counts from when it was asked for: the store's may end later, never earlier.
      renewed = asked;
      // Just now, not when it was asked for: others could not renew theirs before either.
      if (renewingSince === null || result === "lapsed") renewingSince = performance.now();
      return result;
    },
    leave: instances.leave,
    /** As far as can be told without the store. */
    mayHaveLapsed,
    /** Since when renewals have succeeded without a break, ms of `performance.now()`; now, if they do not. */
    renewingSince: (): number =>
      renewingSince === null || mayHaveLapsed() ? performance.now() : renewingSince,
  };
};

export type InstanceLease = ReturnType<typeof createInstanceLease>;
