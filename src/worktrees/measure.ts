import pLimit from "p-limit";
import type { Dependencies } from "./dependencies.ts";
import { isActive, type Known } from "./state.ts";

type Measure = { size: number | null; pushed: boolean | null };

/** How long a measure counts once it is taken, ms: lists are asked for again and again, and each look at a worktree starts git. */
const fresh = 5000;

/** Measures worktrees, a few at once. */
export const createMeasuring = ({
  repos,
  jobs,
  reserve,
  log,
  closing,
}: Pick<Dependencies, "repos" | "jobs" | "reserve" | "log" | "closing">) => {
  const limit = pLimit(4);
  const known = new Map<string, { state: string; measure: Promise<Measure> }>();

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

  const pushedOf = async (
    id: string,
    worktree: Survey["worktree"],
    mayLook: boolean,
  ): Promise<boolean | null> => {
    if (!mayLook) return null;
    return attempt(id, "whether all is pushed", () => repos.isPushed(worktree, closing));
  };

  const look = async ({ id, survey }: Known, keepsJobsOut: boolean): Promise<Measure> => {
    if (survey === null) return { size: null, pushed: null };
    const { worktree, standing, ready } = survey;
    const size = standing ? await attempt(id, "the size", () => repos.worktreeSize(worktree, closing)) : null;
    // Git would get in the way of an agent that begins its work meanwhile.
    using reserved = keepsJobsOut ? null : reserve(id);
    const isFree = keepsJobsOut || (reserved !== null && (await uses(id)) === 0);
    return { size, pushed: await pushedOf(id, worktree, ready && isFree) };
  };

  const uses = async (id: string): Promise<number> => (await jobs.usesOfWorktree(id)).filter(isActive).length;

  const take = (worktree: Known, state: string, keepsJobsOut: boolean): Promise<Measure> => {
    const { id } = worktree;
    const measure = limit(() => look(worktree, keepsJobsOut));
    const entry = { state, measure };
    // Whoever asks while it is being taken, or shortly after, gets the same one.
    known.set(id, entry);
    const forget = (): void => {
      if (known.get(id) === entry) known.delete(id);
    };
    void measure.then(() => setTimeout(forget, fresh).unref(), forget);
    return measure;
  };

  return {
    /** The next one is taken anew. */
    forget: (id: string): void => void known.delete(id),
    /** What was measured before counts no more once a job has come or ended. `keepsJobsOut`: the caller has reserved the worktree, and wants it looked at now. */
    measure: (worktree: Known, { keepsJobsOut = false } = {}): Promise<Measure> => {
      const { id, survey } = worktree;
      const state = JSON.stringify([survey?.standing, worktree.uses]);
      const last = known.get(id);
      return last?.state === state && !keepsJobsOut ? last.measure : take(worktree, state, keepsJobsOut);
    },
  };
};

type Survey = NonNullable<Known["survey"]>;

export type Measuring = ReturnType<typeof createMeasuring>;
