import { pause } from "../lib/wait.ts";

/**
 * Repeats `round` with `intervalMs` between the end of one and the start of the next, until stopped. Stopping waits
 * for the round that is under way.
 */
export const startRepeating = (round: (signal: AbortSignal) => Promise<void>, intervalMs: number) => {
  const controller = new AbortController();
  const loop = (async () => {
    while (!controller.signal.aborted) {
      await round(controller.signal);
      await pause(intervalMs, controller.signal);
    }
  })();
  return {
    stop: async (): Promise<void> => {
      controller.abort();
      await loop;
    },
  };
};
