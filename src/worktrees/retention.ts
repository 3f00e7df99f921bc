import type { Retries } from "../lib/retries.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import type { Dependencies } from "./dependencies.ts";
import { activeUses, lookUp } from "./facts.ts";
import { lockForRemoval, removeWorktree } from "./removal.ts";

/** How long get_worktree answers from the record of a removed worktree, ms. */
const recordTtl = 86_400_000;

/** One round: removes expired prepared worktrees, and finishes removals that a crash cut short. */
export const applyRetention = async (deps: Dependencies, retries: Retries, signal: AbortSignal) => {
  const { records, settings, now, log } = deps;
  for (const record of await records.list()) {
    if (signal.aborted) return;
    const { worktree_id: id } = record;
    // Judged by the record alone at first: reading jobs and disk costs more, and a round runs every second.
    if (record.pod_name !== settings.podName || !isDue(record, deps)) continue;
    if (!retries.isDue(id, now().getTime())) continue;
    try {
      if (record.status === "removed") await records.remove(id);
      else await removeIfDue(deps, id);
      retries.succeeded(id);
    } catch (err) {
      // One failure must not block the others; it is retried with growing pauses.
      retries.failed(id, now().getTime(), err);
      log.warn({ err, worktree: id }, "the worktree could not be removed");
    }
  }
};

/** `ended`: when the jobs in it ended, ms. */
const isDue = (record: WorktreeRecord, { settings, now }: Dependencies, ended: number[] = []): boolean => {
  const isOver = (since: string | null, ms: number): boolean =>
    since !== null && Math.max(Date.parse(since), ...ended) + ms <= now().getTime();
  if (record.status === "preparing") return false;
  if (record.status === "removed") return isOver(record.ended_at, recordTtl);
  return record.removing || isOver(record.used_at ?? record.created_at, settings.preparedWorktreeTtl * 1000);
};

const removeIfDue = async (deps: Dependencies, id: string): Promise<void> => {
  await using lock = await lockForRemoval(deps, id);
  const known = lock === null ? null : await lookUp(deps, id);
  if (lock === null || known === null || known.record === null || known.record.status === "removed") return;
  const ended = known.uses.map((use) => use.ended ?? 0);
  if (activeUses(known).length > 0 || !isDue(known.record, deps, ended)) return;
  await removeWorktree(deps, known, lock);
};

/**
 * Called when the time of a job's worktree is over. Those of its further repositories go first. The job's own worktree is saved and removed; a prepared one only
 * notes its last use. The caller keeps jobs out of it, until `lost` aborts.
 */
export const releaseWorktree = async (deps: Dependencies, job: JobRecord, lost: AbortSignal) => {
  const id = job.worktree_id ?? job.id;
  for (const { worktreeId } of await deps.repos.furtherWorktrees(id)) {
    const further = await lookUp(deps, worktreeId);
    if (further !== null && further.otherHost === null) await removeWorktree(deps, further, { lost });
  }
  const known = await lookUp(deps, id);
  // One that another instance has taken over is an orphan here.
  if (known === null || known.otherHost !== null) return;
  if (known.record === null) {
    await removeWorktree(deps, known, { lost });
    return;
  }
  const used = [known.record.used_at, job.ended_at].filter((at) => at !== null).toSorted();
  await deps.records.update(id, ["ready"], { used_at: used.at(-1) ?? null });
};
