import { setTimeout as delay } from "node:timers/promises";
import { bearer, type Authenticate } from "./access.ts";

const mostInAMinute = 20;
const delayMs = 500;

/**
 * Slows guessing down. Resolves when one more wrong key may be answered: at once, or after half a second when there were
 * more than twenty within a minute.
 * @param now time in ms
 */
export const createWrongKeys = (now: () => number) => {
  let recent: number[] = [];
  return async (): Promise<void> => {
    recent = [...recent.filter((at) => now() - at < 60_000), now()].slice(-mostInAMinute - 1);
    if (recent.length > mostInAMinute) await delay(delayMs);
  };
};

/** Right keys and requests without a key never wait. */
export const slowed =
  (wrongKey: () => Promise<void>, authenticate: Authenticate): Authenticate =>
  async (request) => {
    const identity = await authenticate(request);
    if (identity === null && bringsKey(request)) await wrongKey();
    return identity;
  };

const bringsKey = ({ headers, url }: Request): boolean =>
  headers.has("x-api-key") ||
  bearer(headers.get("authorization")) !== undefined ||
  new URL(url).searchParams.has("api_key");
