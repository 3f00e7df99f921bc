import { isFinal, jobStatuses } from "../contract/job.ts";
import type { WorktreeOnDisk } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { Dependencies } from "./dependencies.ts";
import { hasProcessIn } from "./at-work.ts";
import { concerns, isOwnedHere } from "./other-host.ts";
import { Kept } from "./removal.ts";

/** How often the disk is looked over, ms. */
const interval = 60_000;

/**
 * Finds worktrees of jobs on this instance's disk that are no longer the jobs': an instance that was lost for a while may
 * have lost its jobs to others, which run them in worktrees of their own. What is not pushed is saved, then they go.
 */
export const createOrphanSweep = (deps: Dependencies) => {
  let last = Number.NEGATIVE_INFINITY;

  return {
    /** One round, unless there was one less than a minute ago. */
    tidy: async (signal: AbortSignal): Promise<void> => {
      const at = deps.now().getTime();
      if (Math.abs(at - last) < interval) return;
      for (const id of await deps.repos.listWorktreeIds()) {
        if (signal.aborted) return;
        if ((await whyStray(deps, id)) === null) continue;
        await deps.mutex
          .runExclusive(id, () => removeStray(deps, id))
          .catch((err: unknown) =>
            deps.log.warn({ err, worktree: id }, "a stray worktree could not be removed"),
          );
      }
      last = at;
    },
  };
};

/**
 * `taken`: another instance has made the worktree anew; `left`: its removal was begun, or everybody has forgotten it;
 * `thrown`: a throwaway one whose job is over.
 */
type Stray = { onDisk: WorktreeOnDisk; why: "taken" | "left" | "thrown" };

const removeStray = async (deps: Dependencies, id: string): Promise<void> => {
  const { repos, log } = deps;
  using reserved = deps.reserve(id);
  // Looked at again: a job may have come meanwhile.
  const stray = reserved === null ? null : await whyStray(deps, id);
  if (stray === null) return;
  const { worktree, ready } = stray.onDisk;
  if (await hasProcessIn(worktree.path)) {
    log.warn({ worktree: id }, "a stray worktree is left in place: a process is at work in it");
    return;
  }
  const limit = AbortSignal.timeout(deps.settings.gitTimeout * 2000);
  // The job's own ref is for the instance that has the worktree now.
  const name = stray.why === "taken" ? `${id}-${nameOf(deps.settings.podName)}` : id;
  const isSafe = !ready || stray.why === "thrown" || (await repos.isPushed(worktree, limit));
  const { ref, kept } = isSafe ? { ref: null, kept: [] } : await repos.salvage(worktree, name, limit);
  if (ref !== null) await nameRef(deps, id, ref);
  if (kept.length > 0) throw new Kept(kept);
  await repos.removeWorktree(worktree, limit);
  log.warn({ worktree: id, salvage_ref: ref ?? undefined }, "a stray worktree was removed");
};

/** The instance, as part of a ref; with an id of 36 characters not longer than a ref's name may be. */
const nameOf = (podName: string): string => podName.replaceAll(/[^A-Za-z0-9_-]+/g, "-").slice(0, 60);

/** The job's `salvage_ref` is for what the instance saves that has the worktree now. */
const nameRef = async ({ jobs, settings }: Dependencies, id: string, ref: string): Promise<void> => {
  const message = `What was left of an earlier run on the instance ${settings.podName} is saved under ${ref}`;
  for (const { jobId } of await jobs.usesOfWorktree(id))
    await jobs.update(jobId, { status: jobStatuses }, ({ warnings }) => ({
      warnings: [...warnings, message],
    }));
};

/** Null: it is none. */
const whyStray = async (deps: Dependencies, id: string): Promise<Stray | null> => {
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
): Promise<Stray["why"] | null> => {
  const { jobs, settings } = deps;
  if (onDisk.isThrowaway) return (await isAtWork(deps, id, onDisk)) ? null : "thrown";
  const uses = await jobs.usesOfWorktree(id);
  const all = await Promise.all(uses.map(({ jobId }) => jobs.get(jobId)));
  const records = all.filter((job) => job !== null);
  if (records.some((job) => concerns(job, settings))) return null;
  // Whoever claims it next may be this instance.
  if (records.at(-1)?.status === "queued") return null;
  const ran = records.findLast(({ pod_name }) => pod_name !== null);
  if (ran === undefined) {
    if (records.some((job) => job.worktree_removed_at !== null)) return "left";
    // Two services with stores of their own that share a root do not know each other's jobs.
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

/** On a disk that was inherited from an instance which is gone: nobody else looks after it. */
const isOver = (deps: Dependencies, { status, unsettled, ended_at }: JobRecord): boolean =>
  isFinal(status) && !unsettled && ended_at !== null && isOld(deps, new Date(ended_at));

const isOld = ({ now, settings }: Dependencies, since: Date): boolean =>
  since.getTime() + settings.worktreeTtl * 1000 <= now().getTime();
