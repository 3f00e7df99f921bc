import { z } from "zod";

/** What an instance says about itself with each renewal of its lease. */
export const InstanceFacts = z.object({
  name: z.string(),
  /** A UUID made at each start. */
  epoch: z.string(),
  version: z.string(),
  started_at: z.string(),
  running: z.int(),
  max_parallel_jobs: z.int(),
  /** An instance of an older version does not say. */
  turns: z.int().default(0),
  draining: z.boolean(),
});
export type InstanceFacts = z.infer<typeof InstanceFacts>;

/**
 * `lapsed`: it was taken anew in the same step, but others may have settled this instance's jobs in the meantime.
 * `taken`: another start has the name now, and keeps it.
 */
export type Renewal = "renewed" | "lapsed" | "taken";

/**
 * PORT. The instances that share the store. An instance holds its name by a lease that it renews; one whose lease has
 * lapsed is gone, frozen or cut off, and others settle its jobs.
 *
 * Every function rejects with `ServiceError("store_unavailable")` when the store cannot be asked.
 */
export type Instances = {
  /**
   * Takes this instance's name.
   * @throws Error with a sentence for the operator when another living instance has it
   */
  join: (facts: InstanceFacts) => Promise<void>;
  /** Renews the lease, and says how that went. */
  renew: (facts: InstanceFacts) => Promise<Renewal>;
  /** Gives the name back, unless another start has it. */
  leave: () => Promise<void>;
  /** Those whose lease is valid, by name. */
  list: () => Promise<InstanceFacts[]>;
  /** Asks an instance to take no new jobs for this long, in seconds; 0: takes that back. */
  askToDrain: (name: string, seconds: number) => Promise<void>;
  /** Whether this instance is asked to take no new jobs. */
  isAskedToDrain: () => Promise<boolean>;
};
