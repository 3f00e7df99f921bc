import { setTimeout as delay } from "node:timers/promises";

/** Resolves after that many ms, or when the signal aborts. It does not keep the process alive. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  delay(ms, undefined, { signal, ref: false }).catch(() => undefined);

type Options = {
  /** First and longest wait before the next try, ms; each is twice the one before. */
  first: number;
  longest: number;
  /** Ends the waiting: the try that follows is the last. */
  signal: AbortSignal;
  /** Called after each failure that another try follows. */
  onFailure?: (error: unknown) => void;
};

/** Tries until it succeeds. Rejects as a try that fails once the signal has aborted. */
export const retry = async <Value>(
  work: () => Promise<Value>,
  { first, longest, signal, onFailure }: Options,
): Promise<Value> => {
  for (let wait = first; ; wait = Math.min(wait * 2, longest)) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted) throw error;
      onFailure?.(error);
      await pause(wait, signal);
    }
  }
};
