import type { JobRecord } from "../store/job-record.ts";
import type { JobStore } from "../store/job-store.ts";
import type { Lock, Locks } from "../store/locks.ts";

/** What a run holds until it ends. */
export type HeldLocks = { names: string[]; lock: Lock | null };

type Dependencies = {
  store: Pick<JobStore, "unsettled" | "get" | "usesOfWorktree" | "queuedInSession">;
  /** Locks on agent sessions, across instances. */
  locks: Locks;
  settings: { lostInstanceGrace: number };
  now: () => Date;
};

/** Locks what only one job at a time may use: a worktree of this instance, an agent session across all instances. */
export const createJobLocks = ({ store, locks, settings, now }: Dependencies) => {
  const busy = new Set<string>();

  /**
   * Whether a run that was not cleaned up may still be active, even if another instance ended its job. The wait for a
   * lost instance lasts as long as that for its worktrees.
   */
  const mayBeActive = (ended: number | null): boolean =>
    ended === null || now().getTime() - ended < settings.lostInstanceGrace * 1000;

  /** A lock lapses when the store is unreachable for long while the run continues. The records decide. */
  const isSessionInUse = async ({ id, session_id }: JobRecord): Promise<boolean> => {
    const others = (await store.unsettled()).filter((run) => run.id !== id);
    const records = await Promise.all(others.map((run) => store.get(run.id)));
    return records.some(
      (record) =>
        record?.unsettled === true &&
        record.session_id === session_id &&
        mayBeActive(record.ended_at === null ? null : Date.parse(record.ended_at)),
    );
  };

  const isWorktreeInUse = async ({ id, worktree_id }: JobRecord): Promise<boolean> => {
    const uses = worktree_id === null ? [] : await store.usesOfWorktree(worktree_id);
    return uses.some(({ jobId, unsettled, ended }) => unsettled && jobId !== id && mayBeActive(ended));
  };

  /** Jobs of a session run in the order of their submission; none waits for one whose record cannot be read. */
  const isItsTurn = async ({ id, session_id }: JobRecord): Promise<boolean> => {
    for (const other of session_id === null ? [] : await store.queuedInSession(session_id)) {
      if (other === id) return true;
      if ((await store.get(other)) !== null) return false;
    }
    return true;
  };

  const lockSession = async (record: JobRecord): Promise<Lock | null> => {
    const lock = await locks.take(`session ${record.session_id ?? ""}`);
    if (lock === null) return null;
    const isFree = await isSessionInUse(record).then(
      (inUse) => !inUse,
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
    acquire: async (record: JobRecord): Promise<HeldLocks | null> => {
      const names = lockNames(record);
      const isBusy = (): boolean => names.some((name) => busy.has(name));
      if (isBusy() || !(await isItsTurn(record)) || isBusy()) return null;
      for (const name of names) busy.add(name);
      let needs: HeldLocks | null = null;
      try {
        if (await isWorktreeInUse(record)) return null;
        const lock = record.session_id === null ? null : await lockSession(record);
        if (record.session_id === null || lock !== null) needs = { names, lock };
        return needs;
      } finally {
        if (needs === null) for (const name of names) busy.delete(name);
      }
    },
    release: async ({ names, lock }: HeldLocks): Promise<void> => {
      for (const name of names) busy.delete(name);
      await lock?.release();
    },
    /** Keeps jobs out of a worktree until disposed; null: a job uses it. */
    reserveWorktree: (worktreeId: string): Disposable | null => {
      const need = `worktree ${worktreeId}`;
      if (busy.has(need)) return null;
      busy.add(need);
      return { [Symbol.dispose]: () => void busy.delete(need) };
    },
  };
};

export const lockNames = (record: JobRecord): string[] => [
  `worktree ${record.worktree_id ?? record.id}`,
  ...(record.session_id === null ? [] : [`session ${record.session_id}`]),
];
