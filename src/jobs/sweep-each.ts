import { failureOf } from "../kv/failure.ts";
import type { Log } from "../lib/log.ts";
import { createWarnOnce } from "../lib/warn-once.ts";

/**
 * Runs steps for one job after another, so that an unreadable record does not block the others: it is warned of once.
 * Rejects when the store fails.
 */
export const createEach = (log: Log) => {
  const warnings = createWarnOnce();
  return async <Value>(id: string, step: () => Promise<Value>): Promise<Value | null> => {
    try {
      return await step();
    } catch (err) {
      if (failureOf(err) !== "value") throw err;
      warnings.once(id, () => log.warn({ err, job: id }, "the job cannot be looked after"));
      return null;
    }
  };
};

export type Each = ReturnType<typeof createEach>;
