/** Runs work with the same key one after another, in order; work with different keys runs concurrently. */
export const createKeyedMutex = () => {
  const tails = new Map<string, Promise<unknown>>();

  return {
    runExclusive: <Value>(key: string, work: () => Promise<Value>): Promise<Value> => {
      const result = (tails.get(key) ?? Promise.resolve()).then(work, work);
      tails.set(key, result);
      const forget = (): void => {
        if (tails.get(key) === result) tails.delete(key);
      };
      result.then(forget, forget);
      return result;
    },
    /** Resolves when all work that is queued now has ended, also by a failure. */
    idle: async (): Promise<void> => {
      await Promise.allSettled(tails.values());
    },
  };
};
