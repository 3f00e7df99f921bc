import { isFinal, jobStatuses } from "../contract/job.ts";
import { createRetries } from "../lib/retries.ts";
import type { WorktreeOnDisk } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { Dependencies } from "./dependencies.ts";
import { concerns, isOwnedHere } from "./facts.ts";
import { Kept, limit } from "./removal.ts";
import { readdir, readlink } from "node:fs/promises";

/** Interval between two rounds, ms. */
const interval = 60_000;

/**
 * Finds worktrees on this instance's disk that their jobs no longer use: other instances may have taken the jobs over
 * while this one was lost, and run them in worktrees of their own. Saves what is not pushed, then removes them.
 */
export const createOrphanSweep = (deps: Dependencies) => {
  let last = Number.NEGATIVE_INFINITY;
  const retries = createRetries();

  return {
    /** One round, at most once a minute. */
    sweep: async (signal: AbortSignal): Promise<void> => {
      const at = deps.now().getTime();
      if (Math.abs(at - last) < interval) return;
      for (const id of await deps.repos.listWorktreeIds()) {
        if (signal.aborted) return;
        if (!retries.isDue(id, at) || (await orphanReason(deps, id)) === null) continue;
        await deps.mutex
          .runExclusive(id, () => removeStray(deps, id))
          .catch((err: unknown) => {
            retries.failed(id, at, err);
            deps.log.warn({ err, worktree: id }, "an orphaned worktree could not be removed");
          });
      }
      last = at;
    },
  };
};

/**
 * `taken`: another instance made the worktree again; `left`: its removal had begun, or its record is gone; `thrown`: a
 * throwaway one whose job has ended.
 */
type Orphan = { onDisk: WorktreeOnDisk; why: "taken" | "left" | "thrown" };

const removeStray = async (deps: Dependencies, id: string): Promise<void> => {
  const { repos, log } = deps;
  using reserved = deps.reserve(id);
  // Read again: a job may have come in the meantime.
  const orphan = reserved === null ? null : await orphanReason(deps, id);
  if (orphan === null) return;
  const { worktree, ready } = orphan.onDisk;
  if (await hasProcessIn(worktree.path)) {
    log.warn({ worktree: id }, "an orphaned worktree is left in place: a process is at work in it");
    return;
  }
  const signal = limit(deps);
  // The job's own ref belongs to the instance that has the worktree now.
  const name = orphan.why === "taken" ? `${id}-${nameOf(deps.settings.podName)}` : id;
  const isSafe = !ready || orphan.why === "thrown" || (await repos.isPushed(worktree, signal));
  const { ref, kept } = isSafe ? { ref: null, kept: [] } : await repos.salvage(worktree, name, signal);
  if (ref !== null) await nameRef(deps, id, ref);
  if (kept.length > 0) throw new Kept(kept);
  await repos.removeWorktree(worktree, signal);
  log.warn({ worktree: id, salvage_ref: ref ?? undefined }, "an orphaned worktree was removed");
};

/** The instance's name as part of a ref; with an id of 36 characters it stays within a ref's length limit. */
const nameOf = (podName: string): string => podName.replaceAll(/[^A-Za-z0-9_-]+/g, "-").slice(0, 60);

/** The job's `salvage_ref` belongs to the instance that has the worktree now. */
const nameRef = async ({ jobs, settings }: Dependencies, id: string, ref: string): Promise<void> => {
  const message = `What was left of an earlier run on the instance ${settings.podName} is saved under ${ref}`;
  for (const { jobId } of await jobs.usesOfWorktree(id))
    await jobs.update(jobId, { status: jobStatuses }, ({ warnings }) => ({
      warnings: [...warnings, message],
    }));
};

/** Null: it is no orphan. */
const orphanReason = async (deps: Dependencies, id: string): Promise<Orphan | null> => {
  const onDisk = await deps.repos.readWorktree(id);
  if (onDisk === null || (await deps.records.get(id)) !== null || !(await isOwnedHere(deps, onDisk)))
    return null;
  const why = await reasonOf(deps, id, onDisk);
  return why === null ? null : { onDisk, why };
};

const reasonOf = async (
  deps: Dependencies,
  id: string,
  onDisk: WorktreeOnDisk,
): Promise<Orphan["why"] | null> => {
  const { jobs, settings } = deps;
  if (onDisk.isThrowaway) return (await isAtWork(deps, id, onDisk)) ? null : "thrown";
  const uses = await jobs.usesOfWorktree(id);
  const all = await Promise.all(uses.map(({ jobId }) => jobs.get(jobId)));
  const records = all.filter((job) => job !== null);
  if (records.some((job) => concerns(job, settings))) return null;
  // This instance may claim it next.
  if (records.at(-1)?.status === "queued") return null;
  // One that failed before its checkout was never in it.
  const ran = records.findLast((job) => job.pod_name !== null && job.worktree_path !== null);
  if (ran === undefined) {
    if (records.some((job) => job.worktree_removed_at !== null)) return "left";
    // Two services that share a root but not a store do not know each other's jobs.
    return settings.shared && isOld(deps, onDisk.since) ? "left" : null;
  }
  if (ran.pod_name === settings.podName) return ran.worktree_removed_at === null ? null : "left";
  if (ran.pod_name !== onDisk.instance) return "taken";
  return isOver(deps, ran) ? "left" : null;
};

const isAtWork = async (
  { jobs }: Dependencies,
  id: string,
  { instance }: WorktreeOnDisk,
): Promise<boolean> => {
  const job = await jobs.get(id);
  return job?.pod_name === instance && (!isFinal(job.status) || job.unsettled);
};

/** On a disk inherited from a lost instance: no other instance removes it. */
const isOver = (deps: Dependencies, { status, unsettled, ended_at }: JobRecord): boolean =>
  isFinal(status) && !unsettled && ended_at !== null && isOld(deps, new Date(ended_at));

const isOld = ({ now, settings }: Dependencies, since: Date): boolean =>
  since.getTime() + settings.worktreeTtl * 1000 <= now().getTime();

/** Whether a process of this machine has its working directory in a directory; false where that is unknown. */
const hasProcessIn = async (path: string): Promise<boolean> => {
  const names = await readdir("/proc").catch(() => []);
  const pids = names.filter((name) => /^\d+$/.test(name));
  const places = await Promise.all(pids.map((pid) => readlink(`/proc/${pid}/cwd`).catch(() => "")));
  return places.some((place) => place === path || place.startsWith(`${path}/`));
};
