import { setTimeout as delay } from "node:timers/promises";

/** Resolves after that many ms, or when the signal aborts. Does not keep the process alive. */
export const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  delay(ms, undefined, { signal, ref: false }).catch(() => undefined);

const sleep = (ms: number, signal: AbortSignal): Promise<void> =>
  delay(ms, undefined, { signal }).catch(() => undefined);

/** The result of the work. Rejects with the signal's reason when that aborts first; the work continues. */
export const orAborted = async <Value>(work: Promise<Value>, signal: AbortSignal): Promise<Value> => {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const onAbort = (): void => reject(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
};

type Pauses = {
  /** First and longest pause before the next attempt, ms; each is twice the one before. */
  first: number;
  longest: number;
};

type Poll = Pauses & {
  /** Rejects the call. */
  signal: AbortSignal;
  /** When the call resolves to null, ms of `performance.now()`. */
  deadline?: number;
};

/** Asks until the answer is not null. @throws the signal's reason */
export const poll = async <Value>(
  ask: () => Value | null | Promise<Value | null>,
  { first, longest, signal, deadline = Number.POSITIVE_INFINITY }: Poll,
): Promise<Value | null> => {
  for (let wait = first; ; wait = Math.min(wait * 2, longest)) {
    signal.throwIfAborted();
    const answer = await ask();
    const left = deadline - performance.now();
    if (answer !== null || left <= 0) return answer;
    await sleep(Math.min(wait, left), signal);
  }
};

type Retry = Pauses & {
  /** Ends the pause: one last attempt follows. */
  signal: AbortSignal;
  /** Called after each failure; no other attempt follows when it throws. */
  onFailure?: (error: unknown) => void;
};

/** Repeats the work until it succeeds. Rejects when it fails after the signal has aborted, or when `onFailure` throws. */
export const retry = async <Value>(
  work: () => Promise<Value>,
  { first, longest, signal, onFailure }: Retry,
): Promise<Value> => {
  for (let wait = first; ; wait = Math.min(wait * 2, longest)) {
    try {
      return await work();
    } catch (error) {
      if (signal.aborted) throw error;
      onFailure?.(error);
      await sleep(wait, signal);
    }
  }
};
