import { z } from "zod";

/** What an instance publishes about itself with each renewal of its lease. */
export const InstanceFacts = z.object({
  name: z.string(),
  /** A UUID made at each start. */
  epoch: z.string(),
  version: z.string(),
  started_at: z.string(),
  running: z.int(),
  max_parallel_jobs: z.int(),
  turns: z.int(),
  draining: z.boolean(),
  /** URL at which others reach it; null: it has none. */
  address: z.string().nullable(),
  agent_mode: z.boolean(),
});
export type InstanceFacts = z.infer<typeof InstanceFacts>;

/**
 * `lapsed`: the lease had expired and was taken anew in the same step; other instances may have settled this one's jobs.
 * `taken`: another start has the name now, and keeps it.
 */
export type Renewal = "renewed" | "lapsed" | "taken";

/**
 * PORT. The instances that share the store. An instance has its name by a lease that it renews. One whose lease has
 * expired is dead, frozen or cut off, and the others settle its jobs.
 *
 * Every function rejects with `ServiceError("store_unavailable")` when the store cannot be reached.
 */
export type Instances = {
  /**
   * Takes this instance's name.
   * @throws Error with a sentence for the operator when another living instance has it
   */
  join: (facts: InstanceFacts) => Promise<void>;
  renew: (facts: InstanceFacts) => Promise<Renewal>;
  /** Releases the name, unless another start has it. */
  leave: () => Promise<void>;
  /** Instances whose lease is valid, by name. */
  list: () => Promise<InstanceFacts[]>;
  /** Asks an instance to take no new jobs for this long, in seconds; 0 withdraws the request. */
  askToDrain: (name: string, seconds: number) => Promise<void>;
  /** Whether this instance is asked to take no new jobs. */
  isAskedToDrain: () => Promise<boolean>;
};

/** Without a shared store this instance is the only one. */
export const createLocalInstances = (): Instances => {
  let self: InstanceFacts | null = null;
  let drainsUntil = 0;

  return {
    join: async (facts) => {
      self = facts;
    },
    renew: async (facts) => {
      self = facts;
      return "renewed";
    },
    leave: async () => {
      self = null;
    },
    list: async () => (self === null ? [] : [self]),
    askToDrain: async (name, seconds) => {
      if (name === self?.name) drainsUntil = performance.now() + seconds * 1000;
    },
    isAskedToDrain: async () => performance.now() < drainsUntil,
  };
};
