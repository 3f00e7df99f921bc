import { isIPv6 } from "node:net";

const mostInAMinute = 20;
const mostWaiting = 64;
/** Between two answers, ms. */
const pauseMs = 1000;
/** Addresses that are remembered; of more the one that was not heard of for the longest time is forgotten. */
const mostCallers = 10_000;

/** A request's connection. `signal` is aborted when the caller hangs up. */
type Connection = { close: () => void; signal: AbortSignal };

/** The times of an address's last wrong keys, ms, and the requests that wait, the oldest first. */
type Caller = { recent: number[]; waiting: (Connection & { answer: () => void })[] };

/**
 * Slows guessing down, for each address by itself: of more than 20 wrong keys within a minute the next ones are answered one a
 * second, in turn. Resolves when this one may be answered. Where 64 wait, the oldest is closed.
 * @param now time in ms
 */
export const createWrongKeys = (now: () => number = Date.now) => {
  const callers = new Map<string, Caller>();

  const answerOne = (caller: Caller): void => {
    const { waiting } = caller;
    // Who has hung up takes nobody's turn.
    const turn = waiting.findIndex(({ signal }) => !signal.aborted);
    for (const { answer } of waiting.splice(0, turn + 1 || waiting.length)) answer();
    if (waiting.length > 0) setTimeout(answerOne, pauseMs, caller).unref();
  };

  const callerAt = (address: string): Caller => {
    const name = networkOf(address);
    const caller = callers.get(name) ?? { recent: [], waiting: [] };
    callers.delete(name);
    callers.set(name, caller);
    const [oldest = ""] = callers.keys();
    if (callers.size > mostCallers) callers.delete(oldest);
    return caller;
  };

  return async (address: string, connection: Connection): Promise<void> => {
    const caller = callerAt(address);
    const { waiting } = caller;
    caller.recent = [...caller.recent.filter((at) => now() - at < 60_000), now()].slice(-mostInAMinute - 1);
    if (caller.recent.length <= mostInAMinute) return;
    await new Promise<void>((answer) => {
      waiting.push({ ...connection, answer });
      if (waiting.length === 1) setTimeout(answerOne, pauseMs, caller).unref();
      if (waiting.length <= mostWaiting) return;
      const oldest = waiting.shift();
      oldest?.close();
      oldest?.answer();
    });
  };
};

export type WrongKeys = ReturnType<typeof createWrongKeys>;

/** An address of IPv4, or the /64 of one of IPv6: that is what one customer has of it. */
const networkOf = (address: string): string => {
  const plain = address.replace(/^::ffff:(?=\d+\.)/i, "");
  if (!isIPv6(plain)) return plain;
  const [head = [], tail = []] = plain.split("::").map((part) => part.split(":"));
  const zeros = Array<string>(Math.max(0, 8 - head.length - tail.length)).fill("0");
  return [...head, ...zeros, ...tail].slice(0, 4).join(":");
};
