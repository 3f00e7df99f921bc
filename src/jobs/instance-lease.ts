import type { InstanceFacts, Instances, Renewal } from "../store/instances.ts";

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
