import { ServiceError } from "../contract/errors.ts";

/** How many calls may be under way at a time. */
export type CallLimits = {
  /** Of one session, connection or batch. */
  ofOne: number;
  /** Of all that are served by this process. */
  ofAll: number;
};

/** A call that waits takes some 25 KB: these bound what waiting calls take to 2.5 MB a session and 50 MB in all. */
const defaultLimits: CallLimits = { ofOne: 100, ofAll: 2000 };

export type CallCount = {
  /** Null: the call is counted, and must be left. Otherwise why it may not begin. */
  enter: () => ServiceError | null;
  leave: () => void;
};

/** Counts the calls under way, and makes a count for each session, which is also held to the limit of all. */
export const createCallCounts = ({ ofOne, ofAll }: CallLimits = defaultLimits): (() => CallCount) => {
  let all = 0;
  return () => {
    let own = 0;
    return {
      enter: () => {
        if (own >= ofOne) return full(`${ofOne} calls of this session are under way`);
        if (all >= ofAll) return full(`${ofAll} calls are under way`);
        own += 1;
        all += 1;
        return null;
      },
      leave: () => {
        own -= 1;
        all -= 1;
      },
    };
  };
};

const full = (what: string): ServiceError =>
  new ServiceError("queue_full", `${what}, which is as many as may be; ask again when some have ended`);
