import { basename, resolve } from "node:path";
import pLimit from "p-limit";
import { ServiceError } from "../contract/errors.ts";
import type { CleanupResult } from "../contract/worktree.ts";
import { poll } from "../lib/wait.ts";
import { salvageRef } from "../repos/repos.ts";
import { mainId } from "../repos/several.ts";
import { lockOf } from "../store/locks.ts";
import type { Dependencies } from "./dependencies.ts";
import { activeUses, lookUp, lookUpAll, type WorktreeFacts } from "./facts.ts";
import type { Measuring } from "./measure.ts";
import { forgetWorktree, Kept, limit, ownerOf, removeWorktree } from "./removal.ts";
import { isCutOff, isOutOfReach, refusalOfRemoval } from "./status.ts";

type CleanupRequest = { paths: string; max_age_hours: number; force: boolean; dry_run: boolean };

type Cleaning = Dependencies & {
  measuring: Measuring;
  /** By worktree id: what the last force that was refused said would be lost. */
  told: Map<string, string[]>;
  /** Stops the preparation of a worktree, if one is in flight, and waits for its end. */
  stopPreparing: (id: string) => Promise<void>;
};

/** How long a cancelled job may take to end before its worktree stays after all, ms. */
const jobEndTimeout = 60_000;

/** How long a measurement of the worktree, or the begin of a job, is waited for, ms. */
const measureTimeout = 5000;

/** Why a worktree stays. */
class Refusal extends Error {
  override name = "Refusal";
}

/** Removes worktrees of the service, only those, by path or id and by age. `removed`: how many this call removed. */
export const cleanUp = async (
  deps: Cleaning,
  asked: CleanupRequest,
  progress?: (message: string) => void,
): Promise<{ removed: number; results: CleanupResult[] }> => {
  const names = asked.paths
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  if (names.length === 0 && asked.max_age_hours === 0) {
    throw new ServiceError(
      "invalid_request",
      "paths or max_age_hours: give at least one of them, to say which worktrees to remove",
    );
  }
  const { chosen, foreign } = await choose(deps, new Set(names), asked);
  let done = 0;
  const cleaned = await pLimit(4).map(chosen, async (known) => {
    const result = await cleanOne(deps, known, asked);
    done += 1;
    progress?.(`${done} of ${chosen.length} worktrees`);
    return result;
  });
  return {
    removed: cleaned.filter(({ removed }) => removed).length,
    results: [...cleaned, ...foreign.map(noSuchWorktree)],
  };
};

/** The requested worktrees, each once, and the names that match none. */
const choose = async (deps: Cleaning, names: Set<string>, { max_age_hours: hours }: CleanupRequest) => {
  const chosen = new Map<string, WorktreeFacts>();
  const foreign: string[] = [];
  for (const name of names) {
    const known = await lookUpNamed(deps, name);
    if (known === null) foreign.push(name);
    else chosen.set(known.id, known);
  }
  const before = deps.now().getTime() - hours * 3_600_000;
  for (const known of hours > 0 ? await lookUpAll(deps) : [])
    if (known.about.createdAt.getTime() < before) chosen.set(known.id, known);
  return { chosen: [...chosen.values()], foreign };
};

/** By its id or its path, which ends with the id. */
const lookUpNamed = async (deps: Cleaning, name: string): Promise<WorktreeFacts | null> => {
  const path = name.startsWith("/") ? resolve(name) : null;
  const id = path === null ? name : basename(path);
  const known = isId.test(id) ? await lookUp(deps, id) : null;
  return path === null || known?.about.path === path ? known : null;
};

/** The id for a further repository has a name behind it. */
const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[A-Za-z0-9_-]+)?$/;

const noSuchWorktree = (name: string): CleanupResult => ({
  path: name,
  worktree_id: null,
  success: false,
  removed: false,
  error: "There is no worktree of this service; the list of worktrees shows those there are",
  cancelled_jobs: [],
  size_bytes: null,
  salvage_ref: null,
});

type Done = Partial<CleanupResult>;

const cleanOne = async (deps: Cleaning, { id, about }: WorktreeFacts, asked: CleanupRequest) => {
  // Filled as jobs are cancelled: they are reported even if the removal fails after that.
  const cancelled_jobs: string[] = [];
  const found = { path: about.path, worktree_id: id, cancelled_jobs, size_bytes: null, salvage_ref: null };
  try {
    const done = asked.dry_run
      ? await preview(deps, id, asked)
      : await remove(deps, id, { asked, cancelled: cancelled_jobs });
    return { ...found, success: true, removed: true, error: null, ...done };
  } catch (error) {
    const reason = error instanceof Refusal ? error.message : unexpected(deps, id, error);
    return { ...found, success: false, removed: false, error: reason };
  }
};

const unexpected = ({ log, redact }: Cleaning, id: string, error: unknown): string => {
  log.warn({ err: error, worktree: id }, "the worktree could not be removed");
  return redact(`It could not be removed: ${error instanceof Error ? error.message : String(error)}`);
};

/** The bytes a removal would free, and where it would save unpushed work. @throws Refusal as a removal would */
const preview = async (deps: Cleaning, id: string, asked: CleanupRequest): Promise<Done> => {
  const known = await standing(deps, id, asked);
  if (known === null) return await removedBefore(deps, id);
  const cancelled_jobs = activeUses(known).map(({ jobId }) => jobId);
  if (isCutOff(known)) return { cancelled_jobs, size_bytes: 0, error: forgotten(known) };
  // A decision needs a fresh measurement.
  deps.measuring.forget(id);
  const { size, pushed } = await deps.measuring.measure(known);
  const done = { cancelled_jobs, size_bytes: size };
  if (!asked.force) await requireNoIgnored(deps, known);
  if (hasNoWork(known) || pushed === true) return done;
  const kept = await deps.measuring.unsavable(known);
  if (!asked.force) throw new Refusal(unpushed(kept, asked));
  if (!wereTold(deps, id, kept)) throw new Refusal(keptSentence(kept, asked));
  return { ...done, salvage_ref: salvageRef(ownerOf(known)), ...lossOf(kept, "Would be lost") };
};

/** Removes one. Later calls for it wait meanwhile. */
const remove = async (
  deps: Cleaning,
  id: string,
  { asked, cancelled }: { asked: CleanupRequest; cancelled: string[] },
): Promise<Done> => {
  const { locks, repos, measuring, closing, told } = deps;
  const waiting = { first: 5, longest: 200, signal: closing };
  await using join = await poll(() => locks.take(lockOf.join(mainId(id))), waiting);
  const first = await standing(deps, id, asked);
  if (first === null) return await removedBefore(deps, id);
  await makeFree(deps, first, cancelled);
  if (isCutOff(first)) {
    await forgetWorktree(deps, first);
    return { size_bytes: 0, error: forgotten(first) };
  }
  const deadline = performance.now() + measureTimeout;
  await using own = await poll(() => locks.take(lockOf.worktree(mainId(id))), { ...waiting, deadline });
  if (join === null || own === null)
    throw new Refusal("A job has just begun in it; wait for its end, or use force");
  const known = await standing(deps, id, asked);
  if (known === null) return await removedBefore(deps, id);
  if (isOutOfReach(known)) {
    await forgetWorktree(deps, known);
    return { size_bytes: 0 };
  }
  measuring.forget(id);
  const size_bytes = await measuring.size(known);
  const { onDisk } = known;
  if (!asked.force && !hasNoWork(known) && onDisk !== null) {
    const signal = limit(deps);
    await requireNoIgnored(deps, known);
    if (!(await repos.isPushed(onDisk.worktree, signal)))
      throw new Refusal(unpushed(await repos.unsavable(onDisk.worktree, signal), asked));
  }
  const lost = AbortSignal.any([join.lost, own.lost]);
  const lose = asked.force ? (told.get(id) ?? []) : [];
  const { ref, kept } = await removeWorktree(deps, known, { lost, lose }).catch((error: unknown) => {
    if (!(error instanceof Kept)) throw error;
    if (asked.force) told.set(id, error.kept);
    throw new Refusal(keptSentence(error.kept, asked));
  });
  told.delete(id);
  return { size_bytes, salvage_ref: ref, ...lossOf(kept, "Lost") };
};

/** Its present state; null: it has been removed already. @throws Refusal when it must stay */
const standing = async (deps: Cleaning, id: string, { force }: CleanupRequest) => {
  const known = await lookUp(deps, id);
  if (known === null || (known.record?.status === "removed" && known.onDisk === null)) return null;
  const why = refusalOfRemoval(known, force);
  if (why !== null) throw new Refusal(why);
  return known;
};

/** Another cleanup was faster, or the request came twice. */
const removedBefore = async ({ records }: Cleaning, id: string): Promise<Done> => ({
  removed: false,
  size_bytes: 0,
  salvage_ref: (await records.get(id))?.salvage_ref ?? null,
});

/** No salvage ref has what git ignores. @throws Refusal */
const requireNoIgnored = async ({ repos }: Cleaning, { onDisk }: WorktreeFacts): Promise<void> => {
  const ignored = onDisk === null ? [] : await repos.ignoredStill(onDisk.worktree, onDisk.ignored);
  if (ignored.length === 0) return;
  const more = ignored.length > 5 ? ` and ${ignored.length - 5} more` : "";
  throw new Refusal(
    `It holds work of the agent that git ignores (${ignored.slice(0, 5).join(", ")}${more}); copy what is needed of that, then use force: it is lost then`,
  );
};

/** An unfinished checkout contains none. */
const hasNoWork = ({ onDisk }: WorktreeFacts): boolean => onDisk?.ready !== true;

const wereTold = ({ told }: Cleaning, id: string, kept: string[]): boolean =>
  kept.every((what) => told.get(id)?.includes(what) === true);

const lossOf = (kept: string[], lost: string): { error?: string } =>
  kept.length === 0 ? {} : { error: `${lost} with it: ${kept.join(", ")}` };

const unpushed = (kept: string[], asked: CleanupRequest): string =>
  kept.length > 0
    ? keptSentence(kept, asked)
    : "It holds work that is not pushed; push it, or use force: then it is saved under a salvage ref first";

const keptSentence = (kept: string[], { force, dry_run }: CleanupRequest): string => {
  const again = force && !dry_run ? "once more: it is lost then" : "twice: the first only names it";
  return `It holds what git cannot save (${kept.join(", ")}); copy what is needed of that, then use force ${again}`;
};

const forgotten = ({ otherHost }: WorktreeFacts): string =>
  `Forgotten: its instance ${otherHost?.podName} does not answer; should it come back, it saves what is there and removes it`;

/** Ends what uses the worktree, and notes the jobs that it cancels. */
const makeFree = async (deps: Cleaning, known: WorktreeFacts, cancelled: string[]): Promise<void> => {
  const nobodyAnswers = isCutOff(known);
  if (known.record?.status === "preparing" && !nobodyAnswers) await deps.stopPreparing(known.id);
  // A lost instance ends none of its runs.
  const limit = nobodyAnswers ? AbortSignal.abort() : AbortSignal.timeout(jobEndTimeout);
  const signal = AbortSignal.any([deps.closing, limit]);
  for (const { jobId } of activeUses(known)) {
    cancelled.push(jobId);
    await deps
      .endJob(jobId, "Cancelled: its worktree was removed with force", signal)
      .catch((cause: unknown) => {
        if (nobodyAnswers && cause === limit.reason) return;
        throw new Refusal(`Its job ${jobId} was cancelled but has not ended yet; try again`, { cause });
      });
  }
};
