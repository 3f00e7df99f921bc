import type { Retries } from "../lib/retries.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import type { Dependencies } from "./dependencies.ts";
import { removeWorktree } from "./removal.ts";
import { activeUses, lookUp, type WorktreeFacts } from "./facts.ts";

/** How long get_worktree answers from the record of a removed worktree, ms. */
const recordTtl = 86_400_000;

/** One round: removes expired prepared worktrees, and finishes removals that a crash cut short. */
export const applyRetention = async (
  deps: Dependencies,
  retries: Retries,
  signal: AbortSignal,
): Promise<void> => {
  const { records, settings, now, log } = deps;
  for (const record of await records.list()) {
    if (signal.aborted) return;
    const { worktree_id: id } = record;
    if (record.pod_name !== settings.podName || !mayBeDue(record, deps)) continue;
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

type Clock = Pick<Dependencies, "settings" | "now">;

/** Judged by the record alone: reading jobs and disk costs more, and a round runs every second. */
const mayBeDue = (record: WorktreeRecord, { settings, now }: Clock): boolean => {
  if (record.status === "preparing") return false;
  if (record.status === "removed") return isOver(record.ended_at, recordTtl, now());
  return (
    record.removing || isOver(record.used_at ?? record.created_at, settings.preparedWorktreeTtl * 1000, now())
  );
};

const isDue = (known: WorktreeFacts, { settings, now }: Clock): boolean => {
  const { record, uses } = known;
  if (record === null || record.status === "preparing" || record.status === "removed") return false;
  if (activeUses(known).length > 0) return false;
  if (record.removing) return true;
  const lastUse = Math.max(
    ...uses.map(({ ended }) => ended ?? 0),
    Date.parse(record.used_at ?? record.created_at),
  );
  return isOver(new Date(lastUse).toISOString(), settings.preparedWorktreeTtl * 1000, now());
};

const isOver = (since: string | null, ms: number, now: Date): boolean =>
  since !== null && Date.parse(since) + ms <= now.getTime();

const removeIfDue = (deps: Dependencies, id: string): Promise<void> =>
  deps.mutex.runExclusive(id, async () => {
    using reserved = deps.reserve(id);
    const known = await lookUp(deps, id);
    if (reserved === null || known === null || !isDue(known, deps)) return;
    await removeWorktree(deps, known);
  });

/**
 * Called when the time of a job's worktree is over. The job's own worktree is saved and removed; a prepared one only
 * notes its last use. Jobs must be kept out of it.
 */
export const releaseWorktree = async (deps: Dependencies, job: JobRecord): Promise<void> => {
  const id = job.worktree_id ?? job.id;
  await deps.mutex.runExclusive(id, async () => {
    const known = await lookUp(deps, id);
    // One that another instance has taken over is an orphan here.
    if (known === null || known.otherHost !== null) return;
    if (known.record === null) {
      await removeWorktree(deps, known);
      return;
    }
    const used = [known.record.used_at, job.ended_at].filter((at) => at !== null).toSorted();
    await deps.records.update(id, ["ready"], { used_at: used.at(-1) ?? null });
  });
};
