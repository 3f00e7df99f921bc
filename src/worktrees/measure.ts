import pLimit from "p-limit";
import { orAborted } from "../lib/wait.ts";
import { mainId } from "../repos/several.ts";
import { lockOf } from "../store/locks.ts";
import type { Dependencies } from "./dependencies.ts";
import { isActive, type WorktreeFacts } from "./facts.ts";

type Sources = Pick<Dependencies, "repos" | "jobs" | "locks" | "now" | "log" | "closing">;

/** What is known of a worktree; null: nothing is. `at`: when it was measured. */
export type Measured = { size: number | null; pushed: boolean | null; at: Date };

/** How long a measurement holds where a change may leave no trace: of one worktree that is asked for, and of clones, ms. */
const freshMs = 5000;

/** How long the size of a worktree holds in which a job is at work, ms. */
const busyMs = 30_000;

/** How long it holds that something is not pushed: the remote may have it by now, ms. */
const unpushedMs = 600_000;

/** How long a list waits for the worktrees that were never measured, ms. */
const firstMs = 500;

/**
 * Measures worktrees, a few at once. A measurement holds until something can have changed: its jobs, its directory, the
 * agent's clone, the remote. What cannot be measured is null: that must not fail the rest of a list.
 */
export const createMeasuring = ({ repos, jobs, locks, now, log, closing }: Sources) => {
  /** Measures single worktrees apart from lists, so that no caller waits behind a list. */
  const [asked, listed] = [createQueue(), createQueue()];
  const running = new Map<string, Promise<Measured>>();
  const known = new Map<string, Measured & { state: string }>();
  const sizes = new Map<string, Size>();
  let sizingAll: Promise<unknown> | null = null;
  let caches: { at: number; usage: ReturnType<typeof repos.cacheUsage> } | null = null;

  /** Null: a job is in it, or somebody else has it, whose git this one's would disturb. */
  const whileFree = async <Value>(id: string, work: (signal: AbortSignal) => Promise<Value>) => {
    await using lock = await locks.take(lockOf.worktree(mainId(id)));
    if (lock === null || (await jobs.usesOfWorktree(mainId(id))).some(isActive)) return null;
    return await work(AbortSignal.any([closing, lock.lost]));
  };

  const orNull = <Value>(id: string, what: string, value: Promise<Value> | null): Promise<Value | null> =>
    Promise.resolve(value).catch((err: unknown) => {
      log.warn({ err, worktree: id }, `${what} could not be measured`);
      return null;
    });

  /** Callers share that of one state; while a job is at work it holds no longer than it is measured. */
  const sizeOf = ({ id, onDisk, uses }: WorktreeFacts, state: string, isAnew = false) => {
    const last = sizes.get(id);
    if (last?.state === state && !isAnew) return last.bytes;
    const size = onDisk?.directoryExists === true ? repos.worktreeSize(onDisk.worktree, closing) : null;
    const made: Size = { state, bytes: orNull(id, "the size", size), known: last?.known };
    sizes.set(id, made);
    void made.bytes.then((bytes) => {
      made.known = bytes;
      if (bytes === null || uses.some(isActive)) made.state = null;
    });
    return made.bytes;
  };

  const measure = async (facts: WorktreeFacts, state: string): Promise<Measured> => {
    const { id, onDisk } = facts;
    const at = now();
    const asking =
      onDisk?.ready === true ? whileFree(id, (signal) => repos.isPushed(onDisk.worktree, signal)) : null;
    // What a person has changed deep inside leaves no trace: a new measurement measures all.
    const sizing = sizeOf(facts, state, true);
    const [size, pushed] = await Promise.all([sizing, orNull(id, "whether all is pushed", asking)]);
    known.set(id, { size, pushed, at, state });
    return { size, pushed, at };
  };

  /** Callers share a measurement of one state. `ms`: how old it may be. */
  const measureOne = async (facts: WorktreeFacts, ms = freshMs, { limit, waiting } = asked) => {
    const state = stateOf(facts);
    const key = `${facts.id} ${state}`;
    const held = (): Measured | null => {
      const last = known.get(facts.id);
      return last?.state === state && now().getTime() - last.at.getTime() < ms ? last : null;
    };
    const work = () => shared(running, key, () => measure(facts, state));
    return held() ?? (await shared(waiting, key, () => limit(async () => held() ?? (await work()))));
  };

  /** Answers at once with what is known; measures in the background what may have changed. */
  const measureAll = async (all: readonly WorktreeFacts[]): Promise<(Measured | null)[]> => {
    const first = all.map(async (facts) => {
      const last = known.get(facts.id);
      const measured = measureOne(facts, longestOf(facts, last?.pushed ?? null), listed);
      if (last === undefined) await measured;
    });
    await orAborted(Promise.all(first), AbortSignal.timeout(firstMs)).catch(() => undefined);
    return all.map(({ id, uses }) => {
      const last = known.get(id);
      return last === undefined ? null : { ...last, pushed: uses.some(isActive) ? null : last.pushed };
    });
  };

  return {
    /** The next measurement is fresh. */
    forget: (id: string): void => void (known.delete(id), sizes.delete(id)),
    /** Forgets all other worktrees. */
    keepOnly: (ids: ReadonlySet<string>): void => {
      for (const each of [known, sizes]) for (const id of each.keys()) if (!ids.has(id)) each.delete(id);
    },
    size: (facts: WorktreeFacts): Promise<number | null> => asked.limit(() => sizeOf(facts, stateOf(facts))),
    /** Answers at once with what is known, undefined: not yet; measures the rest in the background. */
    sizes: async (all: readonly WorktreeFacts[]): Promise<(number | null | undefined)[]> => {
      const round = () => listed.limit.map(all, (facts) => sizeOf(facts, stateOf(facts)));
      sizingAll ??= round().finally(() => (sizingAll = null));
      await orAborted(sizingAll, AbortSignal.timeout(firstMs)).catch(() => undefined);
      return all.map(({ id }) => sizes.get(id)?.known);
    },
    measure: (facts: WorktreeFacts): Promise<Measured> => measureOne(facts),
    measureAll,
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
    caches: (): ReturnType<typeof repos.cacheUsage> => {
      const at = now().getTime();
      if (caches === null || Math.abs(at - caches.at) >= freshMs)
        caches = { at, usage: repos.cacheUsage(closing) };
      return caches.usage;
    },
  };
};

/** `state`: null when it is to be measured anew. `known`: the last one. */
type Size = { state: string | null; bytes: Promise<number | null>; known: number | null | undefined };

const createQueue = () => ({ limit: pLimit(4), waiting: new Map<string, Promise<Measured>>() });

const shared = (of: Map<string, Promise<Measured>>, key: string, work: () => Promise<Measured>) => {
  const begun = of.get(key) ?? work().finally(() => of.delete(key));
  of.set(key, begun);
  return begun;
};

const stateOf = ({ onDisk, uses }: WorktreeFacts): string =>
  JSON.stringify([uses, onDisk?.ready, onDisk?.changed]);

/** How long a measurement may hold in a list, ms. */
const longestOf = ({ uses, onDisk }: WorktreeFacts, pushed: boolean | null): number => {
  if (uses.some(isActive) || (pushed === null && onDisk?.ready === true)) return busyMs;
  return pushed === false ? unpushedMs : Infinity;
};

export type Measuring = ReturnType<typeof createMeasuring>;
