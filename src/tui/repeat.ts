import { orAborted, pause } from "../lib/wait.ts";

/** Work that is repeated while a screen is on top, and at once when asked for. */
export const createRepeat = (work: (signal: AbortSignal) => Promise<void>, everyMs: number) => {
  let asked = Promise.withResolvers<void>();
  return {
    now: (): void => asked.resolve(),
    /** Ends without an error when the signal aborts. The work reports its own failures. */
    run: async (signal: AbortSignal): Promise<void> => {
      while (!signal.aborted) {
        asked = Promise.withResolvers();
        await work(signal);
        const ended = new AbortController();
        const over = AbortSignal.any([signal, ended.signal]);
        await orAborted(Promise.race([asked.promise, pause(everyMs, over)]), signal).catch(() => undefined);
        ended.abort();
      }
    },
  };
};
