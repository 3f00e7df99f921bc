import pLimit from "p-limit";
import type { Dependencies } from "./dependencies.ts";
import { isActive, type WorktreeFacts } from "./facts.ts";

type Measure = { size: number | null; pushed: boolean | null };

/** `pushed` is computed on demand only: it starts git. */
type Entry = { state: string; size: Promise<number | null>; pushed: Promise<boolean | null> | null };

/** How long a measurement is cached, ms: lists are requested repeatedly, and each measurement starts git. */
const cacheMs = 5000;

/** Measures worktrees, a few at once. */
export const createMeasuring = ({
  repos,
  jobs,
  reserve,
  log,
  closing,
}: Pick<Dependencies, "repos" | "jobs" | "reserve" | "log" | "closing">) => {
  const limit = pLimit(4);
  const known = new Map<string, Entry>();
  let caches: ReturnType<typeof repos.cacheUsage> | null = null;

  /** Null where it is unknown; that must not fail the rest of a list. */
  const attempt = async <Value>(
    id: string,
    what: string,
    work: () => Promise<Value>,
  ): Promise<Value | null> => {
    try {
      return await work();
    } catch (err) {
      log.warn({ err, worktree: id }, `${what} could not be measured`);
      return null;
    }
  };

  const pushedOf = async (
    id: string,
    worktree: Survey["worktree"],
    mayMeasure: boolean,
  ): Promise<boolean | null> => {
    if (!mayMeasure) return null;
    return attempt(id, "whether all is pushed", () => repos.isPushed(worktree, closing));
  };

  const measureSize = async ({ id, onDisk }: WorktreeFacts): Promise<number | null> =>
    onDisk?.directoryExists === true
      ? attempt(id, "the size", () => repos.worktreeSize(onDisk.worktree, closing))
      : null;

  const measurePushed = async (
    { id, onDisk }: WorktreeFacts,
    keepsJobsOut: boolean,
  ): Promise<boolean | null> => {
    if (onDisk === null) return null;
    return whileFree(id, keepsJobsOut, (isFree) => pushedOf(id, onDisk.worktree, onDisk.ready && isFree));
  };

  /** git would disturb an agent that begins in the meantime. */
  const whileFree = async <Value>(
    id: string,
    keepsJobsOut: boolean,
    work: (isFree: boolean) => Promise<Value>,
  ): Promise<Value> => {
    using reserved = keepsJobsOut ? null : reserve(id);
    return await work(keepsJobsOut || (reserved !== null && (await uses(id)) === 0));
  };

  const uses = async (id: string): Promise<number> => (await jobs.usesOfWorktree(id)).filter(isActive).length;

  const take = (worktree: WorktreeFacts): Entry => {
    const { id } = worktree;
    const entry: Entry = { state: stateOf(worktree), size: limit(() => measureSize(worktree)), pushed: null };
    // Concurrent callers share one measurement.
    known.set(id, entry);
    const forget = (): void => {
      if (known.get(id) === entry) known.delete(id);
    };
    void entry.size.then(() => entry.pushed).then(() => setTimeout(forget, cacheMs).unref(), forget);
    return entry;
  };

  /** A job that came or ended makes earlier measurements invalid. */
  const entryOf = (worktree: WorktreeFacts): Entry => {
    const last = known.get(worktree.id);
    return last?.state === stateOf(worktree) ? last : take(worktree);
  };

  return {
    /** The next measurement is fresh. */
    forget: (id: string): void => void known.delete(id),
    /** `keepsJobsOut`: the caller has reserved the worktree and needs a measurement now. */
    measure: async (worktree: WorktreeFacts, { keepsJobsOut = false } = {}): Promise<Measure> => {
      const entry = keepsJobsOut ? take(worktree) : entryOf(worktree);
      entry.pushed ??= limit(() => measurePushed(worktree, keepsJobsOut));
      const [size, pushed] = await Promise.all([entry.size, entry.pushed]);
      return { size, pushed };
    },
    /** What git cannot save of it as it is now; an agent may be at work in it. */
    unsavable: async ({ id, onDisk }: WorktreeFacts, { keepsJobsOut = false } = {}): Promise<string[]> => {
      if (onDisk?.directoryExists !== true) return [];
      const { worktreeId, repoUrl } = onDisk.worktree;
      const files = { worktreeId, repoUrl, head: null, base: null, format: "names", maxBytes: 0 } as const;
      return whileFree(id, keepsJobsOut, async (isFree) =>
        isFree
          ? repos.unsavable(onDisk.worktree, closing)
          : ((await repos.diff({ ...files, signal: closing }))?.kept ?? []),
      );
    },
    size: (worktree: WorktreeFacts): Promise<number | null> => entryOf(worktree).size,
    /** Of the cached clones; concurrent callers share one measurement. */
    caches: (): ReturnType<typeof repos.cacheUsage> => {
      if (caches !== null) return caches;
      const taken = repos.cacheUsage(closing);
      caches = taken;
      const forget = (): void => void (caches = null);
      void taken.then(() => setTimeout(forget, cacheMs).unref(), forget);
      return taken;
    },
  };
};

const stateOf = ({ onDisk, uses }: WorktreeFacts): string => JSON.stringify([onDisk?.directoryExists, uses]);

type Survey = NonNullable<WorktreeFacts["onDisk"]>;

export type Measuring = ReturnType<typeof createMeasuring>;
