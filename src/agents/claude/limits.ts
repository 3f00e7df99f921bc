export type Limit = "wall" | "begin" | "first_output" | "idle" | "result_grace";

/** Longest times in seconds; 0: no limit, but for the wall clock and the grace after the result. */
export type LimitSeconds = Record<Limit, number>;

type State = "ready" | "prompted" | "begun" | "answering" | "asking" | "ended";

/**
 * Which limit of silence ends a turn in which state. The wall clock runs in all of them.
 *
 * | state       | begins when                                             | limit          | it runs anew with      |
 * |-------------|---------------------------------------------------------|----------------|------------------------|
 * | `ready`     | the turn starts                                         | none           |                        |
 * | `prompted`  | a process that has answered before gets the next prompt | `begin`        | nothing                |
 * | `begun`     | its CLI begins the turn; a new process gets its prompt  | `first_output` | nothing                |
 * | `answering` | the model has begun to answer                           | `idle`         | each line              |
 * | `asking`    | a person is asked; with the answer it is `answering`    | none           |                        |
 * | `ended`     | the result is there                                     | `result_grace` | a result of later work |
 *
 * Nothing else counts: neither answers to control requests, nor the replayed prompt, nor the CLI's notes about itself and its
 * retries are signs of the model. A CLI that only writes those waits for ever.
 */
const limitIn: Record<State, Limit | null> = {
  ready: null,
  prompted: "begin",
  begun: "first_output",
  answering: "idle",
  asking: null,
  ended: "result_grace",
};

/** Calls `onLimit` with the first limit that is exceeded. The wall clock runs from now to the end, whatever comes. */
export const watchLimits = (seconds: LimitSeconds, onLimit: (limit: Limit) => void) => {
  const after = (limit: Limit): NodeJS.Timeout =>
    setTimeout(() => onLimit(limit), Math.min(seconds[limit] * 1000, maxTimerMs));

  const wall = after("wall");
  let silence: NodeJS.Timeout | undefined;
  let state: State = "ready";
  const enter = (next: State): void => {
    state = next;
    clearTimeout(silence);
    const limit = limitIn[next];
    const runs = limit !== null && (seconds[limit] > 0 || limit === "result_grace");
    silence = runs ? after(limit) : undefined;
  };

  return {
    promptGiven: (): void => enter(seconds.begin > 0 ? "prompted" : "begun"),
    /** The CLI wrote a line. `begun`: it has begun the turn; `answering`: so has the model its answer. */
    line: ({ begun, answering }: { begun: boolean; answering: boolean }): void => {
      if (state === "answering") silence?.refresh();
      else if (answering && (state === "prompted" || state === "begun")) enter("answering");
      else if (begun && state === "prompted") enter("begun");
    },
    rest: (rests: boolean): void => {
      if (state !== "ended") enter(rests ? "asking" : "answering");
    },
    /** `worked`: since the result before, if any. Only work makes a later result begin the grace anew. */
    result: (worked: boolean): void => {
      if (state !== "ended" || worked) enter("ended");
    },
    [Symbol.dispose]: (): void => {
      for (const timer of [wall, silence]) clearTimeout(timer);
    },
  };
};

export type Limits = ReturnType<typeof watchLimits>;

/** Beyond it setTimeout fires at once. */
const maxTimerMs = 2 ** 31 - 1;
