import { finalStatuses } from "../contract/job.ts";
import type { WorktreeSurvey } from "../repos/repos.ts";
import type { Dependencies } from "./dependencies.ts";
import type { Known } from "./state.ts";

/** Saves what is not pushed under a salvage ref, then removes; resolves to the ref, null when there was nothing to save. */
export const saveAndRemove = async (
  { repos, settings }: Pick<Dependencies, "repos" | "settings">,
  { worktree, ready }: WorktreeSurvey,
  /** Id that the salvage ref is named by. */
  owner: string,
): Promise<string | null> => {
  // A few git commands, each of which ends by itself: this bounds what would hang otherwise.
  const signal = AbortSignal.timeout(settings.gitTimeout * 2000);
  // Where the checkout was not finished nobody has worked.
  const pushed = !ready || (await repos.isPushed(worktree, signal).catch(() => false));
  const ref = pushed ? null : await repos.salvage(worktree, owner, signal);
  await repos.removeWorktree(worktree, signal);
  return ref;
};

/**
 * Removes a worktree that nobody uses, in its turn and with jobs kept out of it. Each step can be repeated: the record
 * says first that the removal has begun, and last that it is done.
 */
export const removeKnown = async (deps: Dependencies, known: Known): Promise<string | null> => {
  const { records, jobs, now, log } = deps;
  const { id, record, survey, uses } = known;
  if (record !== null) await records.update(id, [record.status], { removing: true });
  const owner = ownerOf(known);
  const ref = survey === null ? null : await saveAndRemove(deps, survey, owner);
  const removed = now().toISOString();
  for (const { jobId } of uses)
    await jobs.update(jobId, { status: finalStatuses }, { worktree_removed_at: removed });
  if (record === null && ref !== null)
    await jobs.update(owner, { status: finalStatuses }, { salvage_ref: ref });
  if (record !== null) {
    const patch = { status: "removed" as const, removing: false, ended_at: removed, error: null };
    await records.update(id, [record.status], { ...patch, ...(ref !== null && { salvage_ref: ref }) });
  }
  log.info({ worktree: id, salvage_ref: ref ?? undefined }, "worktree removed");
  return ref;
};

/** Id that a worktree's salvage ref is named by: its last job's, or its own when it was prepared. */
export const ownerOf = ({ id, record, uses }: Known): string =>
  record === null ? (uses.at(-1)?.jobId ?? id) : id;
