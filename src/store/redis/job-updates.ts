import { isDeepStrictEqual } from "node:util";
import type { Turns } from "../../lib/turns.ts";
import type { JobRecord } from "../job-record.ts";
import type { JobPatch, JobStore, UpdateGuard } from "../job-store.ts";
import { holds } from "../stored-job.ts";
import type { JobRows } from "./job-rows.ts";

type Change = { guard: UpdateGuard; patch: JobPatch | ((record: JobRecord) => JobPatch) };
type Waiting = { guard: UpdateGuard; patch: JobPatch; result: Promise<JobRecord | null> };

/**
 * Compare-and-set on the records. Those of one job wait for each other within this instance, so that they meet only
 * writers of other instances; lazy ones that wait become one.
 */
export const createUpdates = (rows: JobRows, { inTurn }: Turns): JobStore["update"] => {
  /** Of each job the lazy change that was asked for last and has not begun. */
  const waiting = new Map<string, Waiting>();

  const apply = async (id: string, { guard, patch }: Change): Promise<JobRecord | null> => {
    const known = rows.known(id);
    // What is known may be out of date: a refusal needs a look at the store.
    let row = known !== undefined && holds(guard, known.record) ? known : await rows.read(id);
    while (row !== null && holds(guard, row.record)) {
      const next = { ...row.record, ...(typeof patch === "function" ? patch(row.record) : patch) };
      if (await rows.replace(row, next)) return next;
      row = await rows.read(id);
    }
    return null;
  };

  const applyLazily = (id: string, guard: UpdateGuard, patch: JobPatch): Promise<JobRecord | null> => {
    const merged = { ...patch };
    const result = inTurn(id, () => {
      if (waiting.get(id)?.patch === merged) waiting.delete(id);
      return apply(id, { guard, patch: merged });
    });
    waiting.set(id, { guard, patch: merged, result });
    return result;
  };

  return (id, guard, patch, { lazy = false } = {}) => {
    const earlier = waiting.get(id);
    if (lazy && typeof patch !== "function") {
      if (earlier === undefined || !isDeepStrictEqual(earlier.guard, guard))
        return applyLazily(id, guard, patch);
      Object.assign(earlier.patch, patch);
      return earlier.result;
    }
    // What is asked after this one must not come before it.
    waiting.delete(id);
    return inTurn(id, () => apply(id, { guard, patch }));
  };
};
