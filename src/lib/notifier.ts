/**
 * Lets some parts of this process wait for what others tell, by name. A waiter that leaves leaves nothing behind.
 *
 * `atMost`: ms after which every waiter goes on, rung or not.
 */
export const createNotifier = (atMost: number | null = null) => {
  const waiting = new Map<string, Set<() => void>>();

  return {
    notify: (name: string): void => {
      for (const resolve of waiting.get(name) ?? []) resolve();
      waiting.delete(name);
    },
    /** Resolves at the next `ring` for the name, or when the signal aborts. */
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
        const limit = atMost === null ? undefined : setTimeout(done, atMost);
        waiters.add(done);
        signal.addEventListener("abort", done, { once: true });
      }),
  };
};

export type Notifier = ReturnType<typeof createNotifier>;
