import type { WarmProcess } from "./processes.ts";

type Entry = { warm: WarmProcess; since: number; version: string };

type Dependencies = {
  limits: { count: number; seconds: number };
  /** A monotonic clock, ms. */
  clock: () => number;
};

/** Warm processes that wait for the next turn of their conversation. */
export const createIdlePool = ({ limits, clock }: Dependencies) => {
  /** Least recently used first. */
  const entries = new Map<string, Entry>();
  /** Processes that are ending: a new one must not continue their session before that. */
  const ending = new Map<string, Promise<void>>();

  const end = async (key: string): Promise<void> => {
    const entry = entries.get(key);
    if (entry !== undefined) {
      entries.delete(key);
      const ended = entry.warm.process.end().finally(() => {
        if (ending.get(key) === ended) ending.delete(key);
      });
      ending.set(key, ended);
    }
    await ending.get(key);
  };

  /** In the background: the caller has its answer, and another conversation's process may take its time to end. */
  const trim = (): void => {
    for (const key of entries.keys()) {
      if (entries.size <= limits.count) break;
      void end(key);
    }
  };

  return {
    /** Removes and returns the conversation's process; null: there is none of this `version`. */
    take: async (key: string, version: string): Promise<WarmProcess | null> => {
      const entry = entries.get(key);
      if (entry === undefined) {
        await ending.get(key);
        return null;
      }
      if (entry.version !== version || !entry.warm.process.isIdle()) {
        await end(key);
        return null;
      }
      entries.delete(key);
      return entry.warm;
    },
    /** Adds a process for its conversation's next turn, within the limits. */
    add: async (key: string, warm: WarmProcess, version: string): Promise<void> => {
      await end(key);
      if (limits.seconds === 0 || !warm.process.isIdle()) return warm.process.end();
      entries.set(key, { warm, since: clock(), version });
      void warm.process.ended.then(() => {
        if (entries.get(key)?.warm === warm) entries.delete(key);
      });
      trim();
    },
    /** Ends those that were idle too long, and those that `isStale`. */
    prune: async (isStale: (warm: WarmProcess) => boolean): Promise<void> => {
      const over = [...entries].filter(
        ([, { warm, since }]) => clock() - since > limits.seconds * 1000 || isStale(warm),
      );
      await Promise.all(over.map(([key]) => end(key)));
    },
    count: (): number => entries.size,
    stop: async (): Promise<void> => {
      await Promise.all([...entries.keys()].map(end));
    },
  };
};

export type IdlePool = ReturnType<typeof createIdlePool>;
