import type { WarmProcess } from "./processes.ts";

type Entry = { seat: WarmProcess; since: number; bytes: number; version: string };

type Dependencies = {
  limits: { count: number; bytes: number; seconds: number };
  /** Milliseconds of a clock that does not jump. */
  clock: () => number;
};

/** Processes that wait for the next turn of their conversation. */
export const createIdlePool = ({ limits, clock }: Dependencies) => {
  /** The longest unused first. */
  const entries = new Map<string, Entry>();
  /** Processes on their way out: the next one must not go on with a session before they are gone. */
  const leaving = new Map<string, Promise<void>>();

  const end = async (key: string): Promise<void> => {
    const entry = entries.get(key);
    if (entry !== undefined) {
      entries.delete(key);
      const gone = entry.seat.process.end().finally(() => {
        if (leaving.get(key) === gone) leaving.delete(key);
      });
      leaving.set(key, gone);
    }
    await leaving.get(key);
  };

  const overfull = (): boolean => {
    const bytes = [...entries.values()].reduce((sum, entry) => sum + entry.bytes, 0);
    return entries.size > limits.count || bytes > limits.bytes;
  };

  /** Nobody waits for it: one conversation's process may take its time to end, and this one has its answer. */
  const trim = (): void => {
    for (const key of entries.keys()) {
      if (!overfull()) break;
      void end(key);
    }
  };

  return {
    /** The conversation's process, which is then the caller's; null: there is none that is as it was at `version`. */
    take: async (key: string, version: string): Promise<WarmProcess | null> => {
      const entry = entries.get(key);
      if (entry === undefined) {
        await leaving.get(key);
        return null;
      }
      if (entry.version !== version || !entry.seat.process.isIdle()) {
        await end(key);
        return null;
      }
      entries.delete(key);
      return entry.seat;
    },
    /** Keeps a process for its conversation's next turn, as far as there is room. */
    put: async (key: string, seat: WarmProcess, version: string): Promise<void> => {
      await end(key);
      const bytes = await seat.process.residentBytes();
      if (limits.seconds === 0 || bytes === null || !seat.process.isIdle()) return seat.process.end();
      entries.set(key, { seat, since: clock(), bytes, version });
      void seat.process.ended.then(() => {
        if (entries.get(key)?.seat === seat) entries.delete(key);
      });
      trim();
    },
    /** Ends those that have waited too long, and those that `isStale`. */
    tidy: async (isStale: (seat: WarmProcess) => boolean): Promise<void> => {
      const over = [...entries].filter(
        ([, { seat, since }]) => clock() - since > limits.seconds * 1000 || isStale(seat),
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
