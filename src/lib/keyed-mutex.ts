/** Runs the work on one thing one after another, in the order asked; work on different things goes on side by side. */
export const createKeyedMutex = () => {
  const tails = new Map<string, Promise<unknown>>();

  return {
    runExclusive: <Value>(name: string, work: () => Promise<Value>): Promise<Value> => {
      const result = (tails.get(name) ?? Promise.resolve()).then(work, work);
      tails.set(name, result);
      const forget = (): void => {
        if (tails.get(name) === result) tails.delete(name);
      };
      result.then(forget, forget);
      return result;
    },
    /** Resolves when what is under way now has ended, however it ended. */
    idle: async (): Promise<void> => {
      await Promise.allSettled(tails.values());
    },
  };
};

export type KeyedMutex = ReturnType<typeof createKeyedMutex>;
