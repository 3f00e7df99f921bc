import type { Log } from "../lib/log.ts";
import type { KvClient } from "./kv.ts";

/** How often the store is asked for its time, ms. */
const interval = 10_000;

/** By how much this machine's clock may differ before the operator is told, ms. */
const tolerable = 5000;

/**
 * The store's time, which all instances go by: one whose own clock is wrong would expire and delete the jobs of all.
 * Between two answers it goes on with a clock that nobody sets. `key` says which node of a Cluster is asked.
 */
export const createStoreClock = ({ client, key, log }: { client: KvClient; key: string; log: Log }) => {
  /** Of the store's time over `performance.now()`, ms. */
  let ahead = Date.now() - performance.now();
  let told = false;

  const set = async (): Promise<void> => {
    const asked = performance.now();
    const answer = (await client.eval("return redis.call('TIME')", 1, key)) as [string, string];
    const time = Number(answer[0]) * 1000 + Number(answer[1]) / 1000;
    // The store looked at its clock between the question and the answer.
    ahead = Math.min(Math.max(ahead, time - performance.now()), time - asked);
    const wrong = Date.now() - performance.now() - ahead;
    const isWrong = Math.abs(wrong) > tolerable;
    if (isWrong && !told)
      log.warn(
        { seconds: Math.round(wrong / 1000) },
        "the clock of this machine differs from the key-value store's, whose time is used; set it right",
      );
    told = isWrong;
  };

  const timer = setInterval(() => void set().catch(() => undefined), interval);
  timer.unref();

  return {
    set,
    now: (): Date => new Date(performance.now() + ahead),
    stop: (): void => clearInterval(timer),
  };
};
