import { finalStatuses } from "../contract/job.ts";
import { LastingFailure } from "../lib/retries.ts";
import type { Saved } from "../repos/repos.ts";
import type { Dependencies } from "./dependencies.ts";
import { isActive, type WorktreeFacts } from "./facts.ts";

/**
 * Removes an unused worktree, under its mutex and with jobs kept out. Resolves to the ref that saves what was not
 * pushed (null: everything was pushed), and to what was lost.
 *
 * Each step is recorded before the next and can be repeated: save the work and note the ref, announce the removal,
 * remove the directory. A failure before the announcement changes nothing; retention finishes what a crash cut short
 * after it.
 *
 * Jobs that another instance accepts into it are not locked out but detected: that instance stores the job and then
 * checks for an announced removal; this one announces the removal and then checks for jobs. At least one of the two
 * sees the other.
 * `lose`: what git cannot save and may be lost, as `Kept` names it.
 * @throws JobCame when a job was accepted: the removal is withdrawn; Kept when something cannot be saved
 */
export const removeWorktree = async (
  deps: Dependencies,
  known: WorktreeFacts,
  { lose = [] }: { lose?: string[] } = {},
): Promise<Saved> => {
  const { records, repos, now, log } = deps;
  const { id, record, onDisk } = known;
  const { ref, kept } = await save(deps, known);
  if (kept.some((what) => !lose.includes(what))) throw new Kept(kept);
  const announced = await announce(deps, known);
  await refuseIfJobCame(deps, id, announced);
  try {
    if (onDisk !== null) await repos.removeWorktree(onDisk.worktree, limit(deps));
  } catch (error) {
    if (record === null) await announced.takeBack();
    throw error;
  }
  const removed = now().toISOString();
  await freeJobs(deps, known, removed);
  if (record !== null) {
    const patch = { status: "removed" as const, removing: false, ended_at: removed, error: null };
    await records.update(id, [record.status], patch);
  }
  log.info({ worktree: id, salvage_ref: ref ?? undefined }, "worktree removed");
  return { ref, kept };
};

/** A job was accepted into the worktree in the meantime; it stays. */
export class JobCame extends Error {
  override name = "JobCame";
}

/** It contains something that git cannot save: its directory stays. */
export class Kept extends LastingFailure {
  override name = "Kept";
  /** What that is, a few words each. */
  readonly kept: string[];

  constructor(kept: string[]) {
    super(`kept: ${kept.join(", ")}`);
    this.kept = kept;
  }
}

type Announced = { takeBack: () => Promise<void> };

/** Durable: from now on every reader of the worktree sees its removal. */
const announce = async (deps: Dependencies, { id, record, uses }: WorktreeFacts): Promise<Announced> => {
  const { records, jobs, now } = deps;
  if (record !== null) {
    await records.update(id, [record.status], { removing: true });
    return { takeBack: async () => void (await records.update(id, [record.status], { removing: false })) };
  }
  const marked: string[] = [];
  const mark = async (jobId: string, at: string | null): Promise<void> => {
    await jobs.update(jobId, { status: finalStatuses }, { worktree_removed_at: at });
  };
  for (const { jobId } of uses) {
    if ((await jobs.get(jobId))?.worktree_removed_at !== null) continue;
    marked.push(jobId);
    await mark(jobId, now().toISOString());
  }
  return {
    takeBack: async () => {
      for (const jobId of marked) await mark(jobId, null);
    },
  };
};

const refuseIfJobCame = async ({ jobs }: Dependencies, id: string, announced: Announced): Promise<void> => {
  const [active] = (await jobs.usesOfWorktree(id)).filter(isActive);
  if (active === undefined) return;
  await announced.takeBack();
  throw new JobCame(`job ${active.jobId} (${active.status}) has come into the worktree ${id}`);
};

/** Drops the worktree from the service; what is on a disk that this instance does not own stays. */
export const forgetKnown = async (deps: Dependencies, known: WorktreeFacts): Promise<void> => {
  await freeJobs(deps, known, deps.now().toISOString());
  await deps.records.remove(known.id);
  deps.log.info({ worktree: known.id }, "worktree forgotten");
};

const freeJobs = async ({ jobs }: Dependencies, { uses }: WorktreeFacts, at: string): Promise<void> => {
  for (const { jobId } of uses)
    await jobs.update(jobId, { status: finalStatuses }, { worktree_removed_at: at });
};

/** Saves what is not pushed and records the ref durably; `ref`: what holds it, also from an earlier try. */
const save = async (deps: Dependencies, known: WorktreeFacts): Promise<Saved> => {
  const { repos, records, jobs } = deps;
  const { id, record, onDisk } = known;
  const earlier = { ref: record?.salvage_ref ?? null, kept: [] };
  // An unfinished checkout contains no work.
  if (onDisk?.ready !== true) return earlier;
  const signal = limit(deps);
  if (await repos.isPushed(onDisk.worktree, signal).catch(() => false)) return earlier;
  const owner = ownerOf(known);
  const { ref, kept } = await repos.salvage(onDisk.worktree, owner, signal);
  if (ref === null) return { ...earlier, kept };
  if (record === null) await jobs.update(owner, { status: finalStatuses }, { salvage_ref: ref });
  else await records.update(id, [record.status], { salvage_ref: ref });
  return { ref, kept };
};

/** Bounds a few git commands, each of which has its own limit. The end of the service waits for none of them. */
export const limit = ({ settings, closing }: Dependencies): AbortSignal =>
  AbortSignal.any([closing, AbortSignal.timeout(settings.gitTimeout * 2000)]);

/** Names a worktree's salvage ref: the id of its last job, or its own when it was prepared. */
export const ownerOf = ({ id, record, uses }: WorktreeFacts): string =>
  record === null ? (uses.at(-1)?.jobId ?? id) : id;
