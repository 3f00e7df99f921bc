/**
 * Wakes up parts of this process that wait for a name. A waiter that aborts leaves nothing behind. `maxWait`: ms after which
 * every wait ends without a notification.
 */
export const createNotifier = (maxWait: number | null = null) => {
  const waiting = new Map<string, Set<() => void>>();

  return {
    notify: (name: string): void => {
      for (const resolve of waiting.get(name) ?? []) resolve();
      waiting.delete(name);
    },
    /** Resolves at the next `notify` of the name, or when the signal aborts. */
    waitFor: (name: string, signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => {
        if (signal.aborted) return resolve();
        const waiters = waiting.get(name) ?? new Set();
        waiting.set(name, waiters);
        const done = (): void => {
          clearTimeout(limit);
          signal.removeEventListener("abort", done);
          waiters.delete(done);
          if (waiters.size === 0 && waiting.get(name) === waiters) waiting.delete(name);
          resolve();
        };
        const limit = maxWait === null ? undefined : setTimeout(done, maxWait);
        waiters.add(done);
        signal.addEventListener("abort", done, { once: true });
      }),
  };
};

export type Notifier = ReturnType<typeof createNotifier>;
