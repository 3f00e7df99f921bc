import type { InstanceFacts, Instances } from "./instances.ts";
import type { Locks } from "./locks.ts";

/** Within this process. */
export const createLocalLocks = (): Locks => {
  const held = new Map<string, symbol>();
  const never = new AbortController().signal;

  return {
    take: async (name) => {
      if (held.has(name)) return null;
      const mine = Symbol(name);
      held.set(name, mine);
      return {
        release: async () => {
          // Given back twice, it must not end the next one's.
          if (held.get(name) === mine) held.delete(name);
        },
        lost: never,
      };
    },
    close: async () => undefined,
  };
};

/** The only instance there is. */
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
