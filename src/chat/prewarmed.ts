import type { Log } from "../lib/log.ts";
import { variantOf, type WarmProcess, type WarmProcesses, type ProcessOptions } from "./processes.ts";

type Dependencies = {
  processes: Pick<WarmProcesses, "fresh">;
  /** Options of a conversation that asks for nothing special. */
  defaultOptions: () => Promise<ProcessOptions>;
  /** How many to have ready; 0: none. */
  count: number;
  log: Log;
};

/** Processes started ahead of need, for conversations that have none yet. */
export const createPrewarmed = ({ processes, defaultOptions, count, log }: Dependencies) => {
  const waiting = new Set<WarmProcess>();
  let starting: Promise<void> | null = null;
  let closed = false;
  let failures = 0;
  let notBefore = 0;
  let soon: NodeJS.Timeout | undefined;

  const add = async (wanted: ProcessOptions): Promise<void> => {
    const warm = await processes.fresh(wanted);
    waiting.add(warm);
    const begun = performance.now();
    void warm.process.ended.then(() => {
      if (!waiting.delete(warm) || closed) return;
      // A process that ends at once would be restarted in a loop.
      if (performance.now() - begun < tooShortMs) backOff();
      else failures = 0;
      refillSoon(Math.max(refillMs, notBefore - performance.now()));
    });
  };

  const backOff = (): void => {
    failures += 1;
    notBefore = performance.now() + Math.min(longestPause, firstPause * 2 ** Math.min(failures, 10));
  };

  const fill = async (): Promise<void> => {
    try {
      const wanted = await defaultOptions();
      const variant = variantOf(wanted);
      for (const warm of waiting) if (warm.variant !== variant) void discard(warm);
      // Processes that have just started may have ended already.
      while (!closed && waiting.size < count && performance.now() >= notBefore) await add(wanted);
    } catch (err) {
      backOff();
      log.warn({ err }, "no agent process could be started ahead of need; it is tried again");
    }
  };

  const discard = async (warm: WarmProcess): Promise<void> => {
    waiting.delete(warm);
    await warm.process.end();
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
    /** Removes and returns one that fits; null: there is none. */
    take: (wanted: ProcessOptions): WarmProcess | null => {
      const variant = variantOf(wanted);
      for (const warm of waiting) {
        if (warm.variant !== variant || !warm.process.isIdle()) continue;
        waiting.delete(warm);
        failures = 0;
        // Not at once: starting one takes processor time from the turn that begins now.
        refillSoon(refillMs);
        return warm;
      }
      return null;
    },
    /** Starts missing processes and replaces outdated ones, unless it is doing so already. */
    refill,
    processes: (): ReadonlySet<WarmProcess> => waiting,
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
const tooShortMs = 10_000;
const firstPause = 1000;
const longestPause = 60_000;
