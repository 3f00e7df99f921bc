import type { Log } from "../lib/log.ts";
import { variantOf, type WarmProcess, type WarmProcesses, type ProcessOptions } from "./processes.ts";

type Dependencies = {
  seats: Pick<WarmProcesses, "fresh">;
  /** What a conversation without wishes of its own needs. */
  usual: () => Promise<ProcessOptions>;
  /** How many are to wait; 0: none. */
  count: number;
  log: Log;
};

/** Processes that were started ahead of need and have not been given to a conversation. */
export const createPrewarmed = ({ seats, usual, count, log }: Dependencies) => {
  const waiting = new Set<WarmProcess>();
  let starting: Promise<void> | null = null;
  let closed = false;
  let failures = 0;
  let notBefore = 0;
  let soon: NodeJS.Timeout | undefined;

  const add = async (wanted: ProcessOptions): Promise<void> => {
    const seat = await seats.fresh(wanted);
    waiting.add(seat);
    const begun = performance.now();
    void seat.process.ended.then(() => {
      if (!waiting.delete(seat) || closed) return;
      // One that ends by itself at once would be started again and again.
      if (performance.now() - begun < quick) putOff();
      else failures = 0;
      refillSoon(Math.max(refillMs, notBefore - performance.now()));
    });
  };

  const putOff = (): void => {
    failures += 1;
    notBefore = performance.now() + Math.min(longestPause, firstPause * 2 ** Math.min(failures, 10));
  };

  const fill = async (): Promise<void> => {
    try {
      const wanted = await usual();
      const variant = variantOf(wanted);
      for (const seat of waiting) if (seat.variant !== variant) void discard(seat);
      // Those just started may have ended already.
      while (!closed && waiting.size < count && performance.now() >= notBefore) await add(wanted);
    } catch (err) {
      putOff();
      log.warn({ err }, "no agent process could be started ahead of need; it is tried again");
    }
  };

  const discard = async (seat: WarmProcess): Promise<void> => {
    waiting.delete(seat);
    await seat.process.end();
  };

  const refill = (): void => {
    clearTimeout(soon);
    if (count === 0 || closed || starting !== null || performance.now() < notBefore) return;
    starting = fill().finally(() => (starting = null));
  };

  const refillSoon = (ms: number): void => {
    clearTimeout(soon);
    soon = setTimeout(refill, ms);
  };

  return {
    /** One that fits, which is then the caller's; null: there is none. */
    take: (wanted: ProcessOptions): WarmProcess | null => {
      const variant = variantOf(wanted);
      for (const seat of waiting) {
        if (seat.variant !== variant || !seat.process.isIdle()) continue;
        waiting.delete(seat);
        failures = 0;
        // Not at once: starting one costs what the turn that begins now needs.
        refillSoon(refillMs);
        return seat;
      }
      return null;
    },
    /** Starts what is missing and replaces what is out of date, unless that is under way. */
    refill,
    seats: (): ReadonlySet<WarmProcess> => waiting,
    stop: async (): Promise<void> => {
      closed = true;
      clearTimeout(soon);
      await starting;
      await Promise.all([...waiting].map(discard));
    },
  };
};

export type Prewarmed = ReturnType<typeof createPrewarmed>;

/** Milliseconds. */
const refillMs = 3000;
const quick = 10_000;
const firstPause = 1000;
const longestPause = 60_000;
