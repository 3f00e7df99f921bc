import type { Locks } from "../locks.ts";

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
