import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { Lock, Locks } from "../store/locks.ts";

/** What a run holds while it goes on. */
export type Needs = { names: string[]; lock: Lock | null };

type Dependencies = {
  store: Pick<JobStore, "unsettled" | "get">;
  /** Keeps jobs of one agent session apart, on whatever instance they run. */
  locks: Locks;
};

/** Keeps apart what only one job at a time may use: a worktree of this instance, an agent session of all of them. */
export const createNeeds = ({ store, locks }: Dependencies) => {
  const busy = new Set<string>();

  /** A lock lapses with a store that was away for long; a run goes on meanwhile: the records tell. */
  const isAtWork = async ({ id, session_id }: JobRecord): Promise<boolean> => {
    const others = (await store.unsettled()).filter((run) => run.id !== id);
    const records = await Promise.all(others.map((run) => store.get(run.id)));
    return records.some((record) => record?.status === "running" && record.session_id === session_id);
  };

  const lockSession = async (record: JobRecord): Promise<Lock | null> => {
    const lock = await locks.take(`session ${record.session_id ?? ""}`);
    if (lock === null) return null;
    const isFree = await isAtWork(record).then(
      (atWork) => !atWork,
      async (error: unknown) => {
        await lock.release();
        throw error;
      },
    );
    if (isFree) return lock;
    await lock.release();
    return null;
  };

  return {
    /** Null: something that the job needs is in use. */
    take: async (record: JobRecord): Promise<Needs | null> => {
      const names = needsOf(record);
      if (names.some((name) => busy.has(name))) return null;
      for (const name of names) busy.add(name);
      if (record.session_id === null) return { names, lock: null };
      let lock: Lock | null = null;
      try {
        lock = await lockSession(record);
        return lock === null ? null : { names, lock };
      } finally {
        if (lock === null) for (const name of names) busy.delete(name);
      }
    },
    giveBack: async ({ names, lock }: Needs): Promise<void> => {
      for (const name of names) busy.delete(name);
      await lock?.release();
    },
    /** Keeps jobs out of a worktree until it is disposed of; null: a job uses it. */
    reserveWorktree: (worktreeId: string): Disposable | null => {
      const need = `worktree ${worktreeId}`;
      if (busy.has(need)) return null;
      busy.add(need);
      return { [Symbol.dispose]: () => void busy.delete(need) };
    },
  };
};

export const needsOf = (record: JobRecord): string[] => [
  `worktree ${record.worktree_id ?? record.id}`,
  ...(record.session_id === null ? [] : [`session ${record.session_id}`]),
];
