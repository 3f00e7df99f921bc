/** The name that listeners hear when notifications may have been lost. */
export const missed = "";

/** Wakes up what waits in this process for a name, after `maxWait` ms at the latest. An aborted waiter leaves nothing. */
export const createNotifier = (maxWait: number | null = null) => {
  const waiting = new Map<string, Set<() => void>>();
  const listeners = new Set<(name: string) => void>();

  return {
    notify: (name: string): void => {
      for (const resolve of waiting.get(name) ?? []) resolve();
      waiting.delete(name);
      for (const listener of listeners) listener(name);
    },
    /** Called at each `notify`, of every name. Returns the function that ends this. */
    listen: (listener: (name: string) => void): (() => void) => {
      listeners.add(listener);
      return () => void listeners.delete(listener);
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
