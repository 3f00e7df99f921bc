import { finalStatuses } from "../contract/job.ts";
import { LastingFailure } from "../lib/retries.ts";
import { furtherSaved, mainId } from "../repos/several.ts";
import type { Saved } from "../repos/repos.ts";
import { lockOf, type Lock } from "../store/locks.ts";
import type { Dependencies } from "./dependencies.ts";
import { activeUses, type WorktreeFacts } from "./facts.ts";

/** Keeps jobs out of a worktree: none is submitted into it, and none begins. Null: somebody else has it at present. */
export const lockForRemoval = async (
  { locks }: Pick<Dependencies, "locks">,
  id: string,
): Promise<Lock | null> => {
  const join = await locks.take(lockOf.join(mainId(id)));
  if (join === null) return null;
  const own = await locks.take(lockOf.worktree(mainId(id))).catch(async (error: unknown) => {
    await join.release();
    throw error;
  });
  const release = async (): Promise<void> => {
    await own?.release();
    await join.release();
  };
  if (own !== null)
    return { lost: AbortSignal.any([own.lost, join.lost]), release, [Symbol.asyncDispose]: release };
  await release();
  return null;
};

type Removal = {
  /** Ends the removal: the locks that keep jobs out are lost. */
  lost: AbortSignal;
  /** Things that git cannot save and that may be lost, as `Kept` names them. */
  lose?: string[];
};

/**
 * Removes a worktree that no job uses, while jobs are kept out. Resolves to the ref that saves what was not pushed (null:
 * everything was pushed), and to what was lost.
 *
 * Each step is recorded before the next and can be repeated: save the work and note the ref, note that the removal
 * begins, remove the directory. A failure before that note changes nothing; retention finishes what was cut short
 * after it. Until then the note keeps jobs out.
 * @throws Kept
 */
export const removeWorktree = async (
  deps: Dependencies,
  known: WorktreeFacts,
  { lost, lose = [] }: Removal,
): Promise<Saved> => {
  const { records, repos, now, log } = deps;
  const { id, record, onDisk } = known;
  const signal = AbortSignal.any([limit(deps), lost]);
  const [active] = activeUses(known);
  if (active !== undefined) throw new Error(`job ${active.jobId} has just begun in it`);
  const { ref, kept } = await save(deps, known, signal);
  if (kept.some((what) => !lose.includes(what))) throw new Kept(kept);
  signal.throwIfAborted();
  if (record === null) await markJobs(deps, known, now().toISOString());
  else await records.update(id, [record.status], { removing: true });
  if (onDisk !== null) await repos.removeWorktree(onDisk.worktree, signal);
  const removed = now().toISOString();
  await markJobs(deps, known, removed);
  if (record !== null) {
    const patch = { status: "removed" as const, removing: false, ended_at: removed, error: null };
    await records.update(id, [record.status], patch);
  }
  log.info({ worktree: id, salvage_ref: ref ?? undefined }, "worktree removed");
  return { ref, kept };
};

/** It contains something that git cannot save: its directory stays. */
export class Kept extends LastingFailure {
  override name = "Kept";
  /** The things that git cannot save, a few words each. */
  readonly kept: string[];

  constructor(kept: string[]) {
    super(`kept: ${kept.join(", ")}`);
    this.kept = kept;
  }
}

/** Drops the worktree from the service; what is on a disk that this instance does not own stays. */
export const forgetWorktree = async (deps: Dependencies, known: WorktreeFacts): Promise<void> => {
  await markJobs(deps, known, deps.now().toISOString());
  await deps.records.remove(known.id);
  deps.log.info({ worktree: known.id }, "worktree forgotten");
};

/** Notes in the jobs that their worktree goes; not that of a further repository. */
const markJobs = async ({ jobs }: Dependencies, { id, uses }: WorktreeFacts, at: string): Promise<void> => {
  if (mainId(id) !== id) return;
  for (const { jobId } of uses)
    await jobs.update(jobId, { status: finalStatuses }, { worktree_removed_at: at });
};

/** Saves what is not pushed and records the ref durably; `ref`: what holds it, also from an earlier try. */
const save = async (deps: Dependencies, known: WorktreeFacts, signal: AbortSignal): Promise<Saved> => {
  const { repos, records, jobs } = deps;
  const { id, record, onDisk } = known;
  const earlier = { ref: record?.salvage_ref ?? null, kept: [] };
  // An unfinished checkout contains no work.
  if (onDisk?.ready !== true) return earlier;
  if (await repos.isPushed(onDisk.worktree, signal).catch(() => false)) return earlier;
  const owner = ownerOf(known);
  const { ref, kept } = await repos.salvage(onDisk.worktree, owner, signal);
  if (ref === null) return { ...earlier, kept };
  if (mainId(id) !== id)
    await jobs.update(owner, { status: finalStatuses }, ({ warnings }) => ({
      warnings: [...warnings, furtherSaved(onDisk.worktree, ref)],
    }));
  else if (record === null) await jobs.update(owner, { status: finalStatuses }, { salvage_ref: ref });
  else await records.update(id, [record.status], { salvage_ref: ref });
  return { ref, kept };
};

/** Bounds a few git commands, each of which has its own limit. The end of the service waits for none of them. */
export const limit = ({ settings, closing }: Dependencies): AbortSignal =>
  AbortSignal.any([closing, AbortSignal.timeout(settings.gitTimeout * 2000)]);

/** Names a worktree's salvage ref: the id of its last job, or its own when it was prepared. */
export const ownerOf = ({ id, record, uses }: WorktreeFacts): string =>
  record === null ? (uses.at(-1)?.jobId ?? id) : id;
