import { failureOf } from "../kv/failure.ts";
import type { Log } from "../lib/log.ts";

/** How many jobs that could not be looked after are remembered as warned of. */
const mostWarned = 1000;

/**
 * Does things for one job after another, so that a job that cannot be read keeps none of the others: it is warned of,
 * once. Rejects when it is the store that fails.
 */
export const createEach = (log: Log) => {
  const warned = new Set<string>();
  return async <Value>(id: string, step: () => Promise<Value>): Promise<Value | null> => {
    try {
      return await step();
    } catch (error) {
      if (failureOf(error) !== "value") throw error;
      if (!warned.has(id) && warned.size < mostWarned) {
        warned.add(id);
        log.warn({ err: error, job: id }, "the job cannot be looked after");
      }
      return null;
    }
  };
};

export type Each = ReturnType<typeof createEach>;
