export type Limit = "wall" | "first_output" | "idle" | "result_grace";

export type LimitSeconds = {
  wall: number;
  /** From the prompt to the first event; 0: none. */
  firstOutput: number;
  /** Between events; 0: none. */
  idle: number;
  /** From the result to the exit. */
  resultGrace: number;
};

export type Limits = {
  promptGiven: () => void;
  event: () => void;
  /** While it rests, silence has no limit. */
  rest: (rests: boolean) => void;
  /** `worked`: since the result before, if any. Only work makes a later result begin the grace anew. */
  result: (worked: boolean) => void;
  [Symbol.dispose]: () => void;
};

/** Calls `onLimit` with the first limit that is exceeded. The wall clock runs from now to the end, whatever comes. */
export const watchLimits = (seconds: LimitSeconds, onLimit: (limit: Limit) => void): Limits => {
  const after = (limit: Limit, limitSeconds: number): NodeJS.Timeout =>
    setTimeout(() => onLimit(limit), Math.min(limitSeconds * 1000, maxTimerMs));

  const wall = after("wall", seconds.wall);
  let silence: NodeJS.Timeout | undefined;
  let grace: NodeJS.Timeout | undefined;
  let hasOutput = false;
  let resting = false;
  const listen = (): void => {
    clearTimeout(silence);
    silence = seconds.idle > 0 ? after("idle", seconds.idle) : undefined;
  };

  return {
    promptGiven: () => {
      if (!hasOutput && seconds.firstOutput > 0) silence = after("first_output", seconds.firstOutput);
    },
    event: () => {
      if (grace !== undefined || resting) return;
      if (hasOutput) {
        silence?.refresh();
        return;
      }
      hasOutput = true;
      listen();
    },
    rest: (rests) => {
      resting = rests;
      hasOutput = true;
      clearTimeout(silence);
      if (!rests && grace === undefined) listen();
    },
    result: (worked) => {
      if (grace !== undefined && !worked) return;
      for (const timer of [silence, grace]) clearTimeout(timer);
      grace = after("result_grace", seconds.resultGrace);
    },
    [Symbol.dispose]: () => {
      for (const timer of [wall, silence, grace]) clearTimeout(timer);
    },
  };
};

/** Beyond it setTimeout fires at once. */
const maxTimerMs = 2 ** 31 - 1;
