/** Tells waiters in this process that a job has ended. */
export const createSettlements = () => {
  const waiting = new Map<string, Set<() => void>>();

  return {
    tell: (id: string): void => {
      for (const resolve of waiting.get(id) ?? []) resolve();
      waiting.delete(id);
    },
    /** Resolves at the next `tell` for the job, or when the signal aborts. */
    next: (id: string, signal: AbortSignal): Promise<void> =>
      new Promise((resolve) => {
        if (signal.aborted) return resolve();
        const waiters = waiting.get(id) ?? new Set();
        waiting.set(id, waiters);
        const done = (): void => {
          signal.removeEventListener("abort", done);
          waiters.delete(done);
          if (waiters.size === 0 && waiting.get(id) === waiters) waiting.delete(id);
          resolve();
        };
        waiters.add(done);
        signal.addEventListener("abort", done, { once: true });
      }),
  };
};

export type Settlements = ReturnType<typeof createSettlements>;
