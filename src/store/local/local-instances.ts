import type { InstanceFacts, Instances } from "../instances.ts";

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
    tell: async () => undefined,
    // oxlint-disable-next-line require-yield -- nobody else is there to say anything
    messages: async function* () {},
    askToDrain: async (name, seconds) => {
      if (name === self?.name) drainsUntil = performance.now() + seconds * 1000;
    },
    isAskedToDrain: async () => performance.now() < drainsUntil,
  };
};
