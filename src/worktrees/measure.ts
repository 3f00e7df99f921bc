import pLimit from "p-limit";
import type { Dependencies } from "./dependencies.ts";
import { activeUses, type Known } from "./state.ts";

type Measure = { size: number | null; pushed: boolean | null };

/** How long a measure counts, ms: lists are asked for again and again, and each look at a worktree starts git. */
const fresh = 5000;

/** Measures worktrees, a few at once. */
export const createMeasuring = ({ repos, log, now }: Pick<Dependencies, "repos" | "log" | "now">) => {
  const limit = pLimit(4);
  const known = new Map<string, { at: number; state: string; measure: Measure }>();

  /** Null where it cannot be told; that never spoils the rest of a list. */
  const attempt = async <Value>(
    id: string,
    what: string,
    work: () => Promise<Value>,
  ): Promise<Value | null> => {
    try {
      return await work();
    } catch (err) {
      log.warn({ err, worktree: id }, `${what} could not be told`);
      return null;
    }
  };

  const look = async ({ id, survey }: Known, idle: boolean, signal: AbortSignal): Promise<Measure> => {
    if (survey === null) return { size: null, pushed: null };
    const { worktree, standing } = survey;
    const size = standing ? await attempt(id, "the size", () => repos.worktreeSize(worktree, signal)) : null;
    // Git would get in the way of an agent at work.
    const pushed = idle
      ? await attempt(id, "whether all is pushed", () => repos.isPushed(worktree, signal))
      : null;
    return { size, pushed };
  };

  return {
    /** `signal` aborts when the caller is gone: then what is missing is null. */
    measure: (worktree: Known, signal: AbortSignal): Promise<Measure> =>
      limit(async () => {
        const { id, survey } = worktree;
        const at = now().getTime();
        const idle = activeUses(worktree).length === 0 && survey?.ready === true;
        const state = `${idle ? "idle" : "busy"} ${survey?.standing === true ? "standing" : "gone"}`;
        const last = known.get(id);
        if (last !== undefined && at - last.at < fresh && last.state === state) return last.measure;
        if (signal.aborted) return { size: null, pushed: null };
        const measure = await look(worktree, idle, signal);
        if (!signal.aborted) known.set(id, { at, state, measure });
        return measure;
      }),
    forget: (id: string): void => void known.delete(id),
  };
};

export type Measuring = ReturnType<typeof createMeasuring>;
