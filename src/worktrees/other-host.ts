import { isFinal } from "../contract/job.ts";
import type { WorktreeOnDisk } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { WorktreeUse } from "../store/job-store.ts";
import type { Dependencies } from "./dependencies.ts";

/** A worktree on the disk of another instance: that one alone can look at it. */
export type OtherHost = {
  podName: string;
  /** It holds its lease. */
  isAlive: boolean;
  /** The job that ran in it last, for a worktree that was not prepared. */
  job: JobRecord | null;
};

type Sources = Pick<Dependencies, "jobs" | "isAlive"> & { settings: { podName: string } };

/**
 * Whether what lies under our root is ours to look after: made by this instance, or by one that is gone and has left us its
 * disk. Another's that is alive has its own root by mistake in the same place.
 */
export const isOwnedHere = async (
  { isAlive, settings }: Omit<Sources, "jobs">,
  { instance }: WorktreeOnDisk,
): Promise<boolean> => instance === null || instance === settings.podName || !(await isAlive(instance));

/**
 * Where the jobs say that a worktree stands which was not prepared: the job that ran in it last; null: nowhere. Those that
 * wait do not tell, but that they are bound to an instance says that it stands.
 */
export const lastRunIn = async (
  jobs: Sources["jobs"],
  uses: WorktreeUse[],
): Promise<(JobRecord & { pod_name: string }) | null> => {
  let isBound = false;
  for (const { jobId } of uses.toReversed()) {
    const job = await jobs.get(jobId);
    if (job === null) continue;
    const { pod_name, status } = job;
    if (status !== "queued" && pod_name !== null && job.worktree_path !== null)
      return job.worktree_removed_at === null || isBound ? { ...job, pod_name } : null;
    isBound ||= !isFinal(status) && job.bound_to !== null;
  }
  return null;
};

/** Whether a job is at work here, waits for this instance, or has left something here to be cleaned up after. */
export const concerns = (
  { status, unsettled, pod_name, bound_to }: JobRecord,
  { podName }: { podName: string },
): boolean => (status === "queued" ? bound_to : pod_name) === podName && (!isFinal(status) || unsettled);
