import pLimit from "p-limit";
import { mainId } from "../repos/several.ts";
import { lockOf } from "../store/locks.ts";
import type { Dependencies } from "./dependencies.ts";
import { isActive, type WorktreeFacts } from "./facts.ts";

type Sources = Pick<Dependencies, "repos" | "jobs" | "locks" | "log" | "closing">;

/** How long a measurement is cached, ms: lists are requested repeatedly, and each measurement starts git. */
const cacheMs = 5000;

/** Measures worktrees, a few at once. Null where something is unknown: that must not fail the rest of a list. */
export const createMeasuring = ({ repos, jobs, locks, log, closing }: Sources) => {
  const limit = pLimit(4);
  const cached = new Map<string, { state: string; value: Promise<unknown> }>();

  /** Callers share a measurement while it is fresh and `state` is the same. */
  const share = <Value>(key: string, state: string, measure: () => Promise<Value>): Promise<Value> => {
    const last = cached.get(key);
    if (last?.state === state) return last.value as Promise<Value>;
    const value = measure();
    const entry = { state, value };
    cached.set(key, entry);
    const forget = (): void => void (cached.get(key) === entry && cached.delete(key));
    value.then(() => setTimeout(forget, cacheMs).unref(), forget);
    return value;
  };

  /** A job that came or ended makes earlier measurements invalid. */
  const measureOf = <Value>(
    { id, onDisk, uses }: WorktreeFacts,
    what: string,
    work: () => Promise<Value>,
  ): Promise<Value | null> =>
    share(`${what} ${id}`, JSON.stringify([onDisk?.directoryExists, uses]), () =>
      limit(work).catch((err: unknown) => {
        log.warn({ err, worktree: id }, `${what} could not be measured`);
        return null;
      }),
    );

  /** Null: a job is in it, or somebody else has it, whose git this one's would disturb. */
  const whileFree = async <Value>(
    id: string,
    work: (signal: AbortSignal) => Promise<Value>,
  ): Promise<Value | null> => {
    await using lock = await locks.take(lockOf.worktree(id));
    if (lock === null || (await jobs.usesOfWorktree(id)).some(isActive)) return null;
    return await work(AbortSignal.any([closing, lock.lost]));
  };

  const sizeOf = async (known: WorktreeFacts): Promise<number | null> => {
    const { onDisk } = known;
    if (onDisk?.directoryExists !== true) return null;
    return await measureOf(known, "the size", () => repos.worktreeSize(onDisk.worktree, closing));
  };

  const pushedOf = async (known: WorktreeFacts): Promise<boolean | null> => {
    const { id, onDisk } = known;
    if (onDisk?.ready !== true) return null;
    return await measureOf(known, "whether all is pushed", () =>
      whileFree(id, (signal) => repos.isPushed(onDisk.worktree, signal)),
    );
  };

  return {
    /** The next measurement is fresh. */
    forget: (id: string): void => {
      for (const key of cached.keys()) if (key.endsWith(` ${id}`)) cached.delete(key);
    },
    size: sizeOf,
    measure: async (known: WorktreeFacts) => {
      const [size, pushed] = await Promise.all([sizeOf(known), pushedOf(known)]);
      return { size, pushed };
    },
    /** The things that git cannot save of it now; an agent may be at work in it. */
    unsavable: async ({ id, onDisk }: WorktreeFacts): Promise<string[]> => {
      if (onDisk?.directoryExists !== true) return [];
      const { worktree } = onDisk;
      const { worktreeId, repoUrl } = worktree;
      const files = { worktreeId, repoUrl, head: null, base: null, format: "names", maxBytes: 0 } as const;
      return (
        (await whileFree(id, (signal) => repos.unsavable(worktree, signal))) ??
        (await repos.diff({ ...files, signal: closing }))?.kept ??
        []
      );
    },
    caches: (): ReturnType<typeof repos.cacheUsage> => share("clones", "", () => repos.cacheUsage(closing)),
  };
};

export type Measuring = ReturnType<typeof createMeasuring>;
