import { readdir, readlink } from "node:fs/promises";
import { jobStatuses } from "../contract/job.ts";
import type { Retries } from "../lib/retries.ts";
import { mainId } from "../repos/several.ts";
import type { WorktreeOnDisk } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { Dependencies } from "./dependencies.ts";
import { isActive, isOwnedHere } from "./facts.ts";
import { Kept, limit, lockForRemoval } from "./removal.ts";

/**
 * Finds worktrees on this instance's disk that their jobs no longer use: other instances may have taken the jobs over
 * while this one was lost, and run them in worktrees of their own. Saves what is not pushed, then removes them.
 */
export const removeOrphans = async (deps: Dependencies, retries: Retries, signal: AbortSignal) => {
  const at = deps.now().getTime();
  for (const id of await deps.repos.listWorktreeIds()) {
    if (signal.aborted) return;
    if (!retries.isDue(id, at) || (await findOrphan(deps, id)) === null) continue;
    await removeOrphan(deps, id).catch((err: unknown) => {
      retries.failed(id, at, err);
      deps.log.warn({ err, worktree: id }, "an orphaned worktree could not be removed");
    });
  }
};

/** `taken`: made again elsewhere; `left`: its removal had begun, or it has no record; `thrown`: throwaway, its job has ended. */
type Reason = "taken" | "left" | "thrown";

const removeOrphan = async (deps: Dependencies, id: string): Promise<void> => {
  const { repos, jobs, settings, log } = deps;
  await using lock = await lockForRemoval(deps, id);
  // Read again: a job may have come in the meantime.
  const orphan = lock === null ? null : await findOrphan(deps, id);
  if (lock === null || orphan === null) return;
  const { worktree, ready } = orphan.onDisk;
  if (await hasProcessIn(worktree.path)) {
    log.warn({ worktree: id }, "an orphaned worktree is left in place: a process is at work in it");
    return;
  }
  const signal = AbortSignal.any([limit(deps), lock.lost]);
  // The job's own ref, and its `salvage_ref`, belong to the instance that has the worktree now.
  const name = orphan.why === "taken" ? `${id}-${nameOf(settings.podName)}` : id;
  const isSafe = !ready || orphan.why === "thrown" || (await repos.isPushed(worktree, signal));
  const { ref, kept } = isSafe ? { ref: null, kept: [] } : await repos.salvage(worktree, name, signal);
  if (ref !== null) {
    const message = `What was left of an earlier run on the instance ${settings.podName} is saved under ${ref}`;
    for (const { jobId } of await jobs.usesOfWorktree(mainId(id)))
      await jobs.update(jobId, { status: jobStatuses }, ({ warnings }) => ({
        warnings: [...warnings, message],
      }));
  }
  if (kept.length > 0) throw new Kept(kept);
  await repos.removeWorktree(worktree, signal);
  log.warn({ worktree: id, salvage_ref: ref ?? undefined }, "an orphaned worktree was removed");
};

/** The instance's name as part of a ref; with an id of 36 characters it stays within a ref's length limit. */
const nameOf = (podName: string): string => podName.replaceAll(/[^A-Za-z0-9_-]+/g, "-").slice(0, 60);

/** Null: it is no orphan. */
const findOrphan = async (
  deps: Dependencies,
  id: string,
): Promise<{ onDisk: WorktreeOnDisk; why: Reason } | null> => {
  const { repos, records, jobs } = deps;
  const onDisk = await repos.readWorktree(id);
  if (onDisk === null || (await records.get(id)) !== null || !(await isOwnedHere(deps, onDisk))) return null;
  if (onDisk.isThrowaway) {
    const job = await jobs.get(mainId(id));
    const isAtWork = job?.pod_name === onDisk.instance && isActive(job);
    return isAtWork ? null : { onDisk, why: "thrown" };
  }
  const users = await Promise.all(
    (await jobs.usesOfWorktree(mainId(id))).map(({ jobId }) => jobs.get(jobId)),
  );
  const known = users.filter((job) => job !== null);
  const why = orphanReason(deps, onDisk, known);
  return why === null ? null : { onDisk, why };
};

/** Judged from the jobs that used it, oldest first; null: it is no orphan. */
const orphanReason = (
  { settings, now }: Pick<Dependencies, "settings" | "now">,
  onDisk: WorktreeOnDisk,
  users: JobRecord[],
): Reason | null => {
  const here = settings.podName;
  const isOld = (since: Date): boolean => since.getTime() + settings.worktreeTtl * 1000 <= now().getTime();
  // This instance may claim next what waits.
  if (users.some((job) => concerns(job, here)) || users.at(-1)?.status === "queued") return null;
  // One that failed before its checkout was never in it.
  const ran = users.findLast((job) => job.pod_name !== null && job.worktree_path !== null);
  if (ran === undefined) {
    if (users.some((job) => job.worktree_removed_at !== null)) return "left";
    // Two services that share a root but not a store do not know each other's jobs.
    return settings.shared && isOld(onDisk.since) ? "left" : null;
  }
  if (ran.pod_name === here) return ran.worktree_removed_at === null ? null : "left";
  if (ran.pod_name !== onDisk.instance) return "taken";
  // On a disk inherited from a lost instance: no other instance removes it.
  return !isActive(ran) && ran.ended_at !== null && isOld(new Date(ran.ended_at)) ? "left" : null;
};

/** Whether a job runs here, waits for this instance, or left something here to clean up. */
const concerns = (job: JobRecord, here: string): boolean =>
  (job.status === "queued" ? job.bound_to : job.pod_name) === here && isActive(job);

/** Whether a process of this machine has its working directory in a directory; false where that is unknown. */
const hasProcessIn = async (path: string): Promise<boolean> => {
  const names = await readdir("/proc").catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name));
  const places = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => "")));
  return places.some((place) => place === path || place.startsWith(`${path}/`));
};
