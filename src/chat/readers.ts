import type { DisconnectPolicy } from "../config/formats.ts";

type Options = {
  policy: DisconnectPolicy;
  /** Seconds for which the turn goes on at the least after its last reader has left, so that a retry can join it. */
  leastGrace: number;
  /** Nobody reads the turn any more, and nobody is going to. */
  onAbandoned: () => void;
};

/** Counts who reads a turn. One that nobody has begun to read yet is read by who asked for it. */
export const createReaders = ({ policy, leastGrace, onAbandoned }: Options) => {
  let count = 0;
  let over = false;
  let timer: NodeJS.Timeout | undefined;

  const left = (): void => {
    count -= 1;
    if (count > 0 || over || policy.kind === "detach") return;
    const seconds = Math.max(leastGrace, policy.graceSeconds);
    if (seconds === 0) return onAbandoned();
    timer = setTimeout(onAbandoned, seconds * 1000);
  };

  return {
    /** Returns what is to be called when the reader leaves, or its signal aborts; more than once does no harm. */
    enter: (signal: AbortSignal): (() => void) => {
      clearTimeout(timer);
      count += 1;
      let here = true;
      const leave = (): void => {
        if (!here) return;
        here = false;
        signal.removeEventListener("abort", leave);
        left();
      };
      signal.addEventListener("abort", leave, { once: true });
      if (signal.aborted) leave();
      return leave;
    },
    count: (): number => count,
    /** The turn has ended: leaving does nothing any more. */
    close: (): void => {
      over = true;
      clearTimeout(timer);
    },
  };
};
