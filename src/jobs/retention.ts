import { finalStatuses } from "../contract/job.ts";
import type { Retries } from "../lib/retries.ts";
import type { JobRecord } from "../store/job-record.ts";
import { endJob, type Settling } from "./settle.ts";

export type Retention = Settling & {
  /** Seconds that a worktree stays after its job's end. */
  worktreeTtl: number;
  /** Removes what a job has on disk besides its record and events. Must be safe to repeat. */
  removeWorktree: (record: JobRecord) => Promise<void>;
  removeConfig: (record: JobRecord) => Promise<void>;
  /** Keeps jobs out of a worktree until disposed; null: a running job uses it. */
  reserveWorktree: (worktreeId: string) => Disposable | null;
  /**
   * Where a job's worktree is: on this instance's disk, on that of another living instance, or on none that can be
   * reached.
   */
  locationOf: (record: JobRecord) => "here" | "other" | "lost";
  /** Shared by all rounds. */
  retries: Retries;
};

/** One round: expires jobs that waited too long, and removes worktrees and records whose time is over. */
export const applyRetention = async (deps: Retention, signal: AbortSignal): Promise<void> => {
  const { store, now } = deps;
  const { expired, removable } = await store.due(now().getTime());
  const worktrees = await store.worktreesDue(now().getTime() - deps.worktreeTtl * 1000);
  const steps: [string[], (id: string, deps: Retention) => Promise<void>][] = [
    [expired, expire],
    [worktrees, removeWorktree],
    [removable, removeRecord],
  ];
  for (const [ids, step] of steps) {
    for (const id of ids) {
      if (signal.aborted) return;
      if (!deps.retries.isDue(id, now().getTime())) continue;
      // One job's failure must not block the others. It is retried with growing pauses.
      await step(id, deps).then(
        () => deps.retries.succeeded(id),
        (error: unknown) => {
          deps.retries.failed(id, now().getTime());
          deps.log.warn({ err: error, job: id }, "the job could not be tidied");
        },
      );
    }
  }
};

const expire = async (id: string, deps: Retention): Promise<void> => {
  const expired = await endJob(deps, id, "expire", ({ ttl_seconds }) => ({
    error: `The job waited longer than its ${ttl_seconds} s; submit it again when the service is less busy`,
  }));
  if (expired !== null) deps.log.info({ job: id }, "job expired");
};

const removeWorktree = async (id: string, deps: Retention): Promise<void> => {
  const record = await deps.store.get(id);
  if (record === null || record.worktree_id === null) return;
  // A job that resumes the session waits in the meantime: it must not start in a directory that is being removed.
  using reserved = deps.reserveWorktree(record.worktree_id);
  if (reserved === null) return;
  // A later job uses the worktree: it is removed with that one.
  const newest = (await deps.store.usesOfWorktree(record.worktree_id)).at(-1);
  if (newest === undefined || newest.jobId === id) await deps.removeWorktree(record);
  await deps.store.update(id, { status: finalStatuses }, { worktree_removed_at: deps.now().toISOString() });
};

const removeRecord = async (id: string, deps: Retention): Promise<void> => {
  const record = await deps.store.get(id);
  if (record === null) return;
  const location = deps.locationOf(record);
  // Its own instance removes it.
  if (location === "other") return;
  if (location === "here" && record.worktree_path !== null && record.worktree_removed_at === null) {
    await removeWorktree(id, deps);
    if ((await deps.store.get(id))?.worktree_removed_at === null) return;
  }
  await deps.removeConfig(record);
  await deps.events.remove(id);
  await deps.store.remove(id);
  deps.log.info({ job: id }, "job record removed");
};
