import { basename, resolve } from "node:path";
import pLimit from "p-limit";
import { ServiceError } from "../contract/errors.ts";
import type { CleanupResult } from "../contract/worktree.ts";
import { salvageRef } from "../repos/repos.ts";
import { pause } from "../lib/wait.ts";
import type { Dependencies } from "./dependencies.ts";
import type { Measuring } from "./measure.ts";
import { forgetKnown, JobCame, Kept, ownerOf, removeWorktree } from "./removal.ts";
import {
  activeUses,
  factsOf,
  isCutOff,
  isOutOfReach,
  lookUp,
  lookUpAll,
  statusOf,
  type WorktreeFacts,
} from "./facts.ts";

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

/** Why a worktree stays. */
class Refusal extends Error {
  override name = "Refusal";
}

/** The worktree is removed, but not by this cleanup: another was faster, or the request came twice. */
class AlreadyRemoved extends Error {
  override name = "AlreadyRemoved";
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
  const limit = pLimit(4);
  let done = 0;
  const cleaned = await limit.map(chosen, async (known) => {
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
const choose = async (
  deps: Cleaning,
  names: Set<string>,
  asked: CleanupRequest,
): Promise<{ chosen: WorktreeFacts[]; foreign: string[] }> => {
  const chosen = new Map<string, WorktreeFacts>();
  const foreign: string[] = [];
  for (const name of names) {
    const known = await lookUpNamed(deps, name);
    if (known === null) foreign.push(name);
    else chosen.set(known.id, known);
  }
  if (asked.max_age_hours > 0)
    for (const known of (await lookUpAll(deps)).filter(olderThan(deps, asked))) chosen.set(known.id, known);
  return { chosen: [...chosen.values()], foreign };
};

/** By its id or its path, which ends with the id. */
const lookUpNamed = async (deps: Cleaning, name: string): Promise<WorktreeFacts | null> => {
  const path = name.startsWith("/") ? resolve(name) : null;
  const id = path === null ? name : basename(path);
  const known = isId.test(id) ? await lookUp(deps, id) : null;
  return known === null || path === null || factsOf(known).path === path ? known : null;
};

const isId = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const olderThan =
  ({ now }: Pick<Dependencies, "now">, { max_age_hours }: CleanupRequest) =>
  (known: WorktreeFacts): boolean =>
    now().getTime() - factsOf(known).createdAt.getTime() > max_age_hours * 3_600_000;

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

const cleanOne = async (
  deps: Cleaning,
  listed: WorktreeFacts,
  asked: CleanupRequest,
): Promise<CleanupResult> => {
  const { id } = listed;
  // Filled as jobs are cancelled: they are reported even if the removal fails after that.
  const cancelled: string[] = [];
  const about = {
    path: factsOf(listed).path,
    worktree_id: id,
    success: true,
    removed: true,
    error: null,
    cancelled_jobs: cancelled,
    size_bytes: null,
    salvage_ref: null,
  };
  try {
    const done = asked.dry_run
      ? await inspect(deps, id, asked)
      : // Later calls for this worktree wait while this one waits for its jobs.
        await deps.mutex.runExclusive(id, () => remove(deps, id, { asked, cancelled }));
    return { ...about, ...done };
  } catch (error) {
    if (error instanceof AlreadyRemoved) {
      const salvage_ref = (await deps.records.get(id))?.salvage_ref ?? null;
      return { ...about, removed: false, size_bytes: 0, salvage_ref };
    }
    const reason =
      error instanceof JobCame
        ? "A job has just begun in it; wait for its end, or use force"
        : error instanceof Refusal
          ? error.message
          : unexpected(deps, id, error);
    return { ...about, success: false, removed: false, error: reason };
  }
};

type Done = Pick<CleanupResult, "cancelled_jobs" | "size_bytes" | "salvage_ref"> & { error?: string };

const remove = async (
  deps: Cleaning,
  id: string,
  { asked, cancelled }: { asked: CleanupRequest; cancelled: string[] },
): Promise<Omit<Done, "cancelled_jobs">> => {
  const first = await standing(deps, id);
  await makeFree(deps, first, { asked, cancelled });
  if (isCutOff(first)) {
    await forgetKnown(deps, first);
    return { size_bytes: 0, salvage_ref: null, error: forgotten(first) };
  }
  using reserved = await reserveSoon(deps, id);
  if (reserved === null) throw new Refusal("A job has just begun in it; wait for its end, or use force");
  const known = await standing(deps, id);
  if (isOutOfReach(known) && asked.force) {
    await forgetKnown(deps, known);
    return { size_bytes: 0, salvage_ref: null };
  }
  const { size_bytes } = await inspect(deps, id, asked, { keepsJobsOut: true });
  const lose = asked.force ? (deps.told.get(id) ?? []) : [];
  const current = await standing(deps, id);
  const { ref, kept } = await removeWorktree(deps, current, { lose }).catch((error: unknown) => {
    if (!(error instanceof Kept)) throw error;
    if (asked.force) deps.told.set(id, error.kept);
    throw new Refusal(keptSentence(error.kept, asked));
  });
  deps.told.delete(id);
  return { size_bytes, salvage_ref: ref, ...lossOf(kept, "Lost") };
};

const lossOf = (kept: string[], lost: string): { error?: string } =>
  kept.length === 0 ? {} : { error: `${lost} with it: ${kept.join(", ")}` };

const keptSentence = (kept: string[], { force, dry_run }: CleanupRequest): string => {
  const again = force && !dry_run ? "once more: it is lost then" : "twice: the first only names it";
  return `It holds what git cannot save (${kept.join(", ")}); copy what is needed of that, then use force ${again}`;
};

/** A list may be measuring it, which takes a moment. Null: a job is in it. */
const reserveSoon = async (deps: Cleaning, id: string): Promise<Disposable | null> => {
  for (let tries = 0; tries < 100 && !deps.closing.aborted; tries += 1) {
    const reserved = deps.reserve(id);
    if (reserved !== null) return reserved;
    await pause(50, deps.closing);
  }
  return null;
};

/** What a removal would free and where it would save unpushed work. @throws Refusal as a removal would */
const inspect = async (
  deps: Cleaning,
  id: string,
  asked: CleanupRequest,
  reservation?: { keepsJobsOut: true },
): Promise<Done> => {
  const known = await standing(deps, id);
  refuseUnlessFree(known, asked);
  const cancelled_jobs = activeUses(known).map(({ jobId }) => jobId);
  if (isCutOff(known)) return { cancelled_jobs, size_bytes: 0, salvage_ref: null, error: forgotten(known) };
  // A decision needs a fresh measurement.
  deps.measuring.forget(id);
  const { size, pushed } = await deps.measuring.measure(known, reservation);
  // An unfinished checkout contains no work.
  const isSafe = pushed === true || known.onDisk?.ready !== true;
  const done = { cancelled_jobs, size_bytes: size, salvage_ref: isSafe ? null : salvageRef(ownerOf(known)) };
  // A removal finds out by saving the work.
  if (isSafe || (asked.force && !asked.dry_run)) return done;
  const kept = await deps.measuring.unsavable(known, reservation);
  const told = asked.force ? deps.told.get(id) : [];
  if (kept.some((what) => told?.includes(what) !== true)) throw new Refusal(keptSentence(kept, asked));
  if (asked.force) return { ...done, ...lossOf(kept, "Would be lost") };
  throw new Refusal(
    "It holds work that is not pushed; push it, or use force: then it is saved under a salvage ref first",
  );
};

/** Its present state: another cleanup may have been faster. */
const standing = async (deps: Cleaning, id: string): Promise<WorktreeFacts> => {
  const known = await lookUp(deps, id);
  if (known === null || (known.record?.status === "removed" && known.onDisk === null))
    throw new AlreadyRemoved("it has been removed already");
  return known;
};

/** @throws Refusal with the reason why it must stay in its present state */
const refuseUnlessFree = (known: WorktreeFacts, { force }: CleanupRequest): void => {
  const { record, otherHost } = known;
  if (otherHost !== null && !(force && isCutOff(known))) throw new Refusal(otherDisk(known, otherHost));
  if (force) return;
  if (isOutOfReach(known)) throw new Refusal(statusOf(known).error ?? "It cannot be reached");
  if (record?.status === "preparing")
    throw new Refusal("It is being prepared; wait until it is ready, or use force");
  const active = activeUses(known);
  if (active.length > 0) {
    const jobs = active.map(({ jobId, status }) => `${jobId} (${status})`).join(", ");
    throw new Refusal(
      `It is in use by job ${jobs}; wait for its end, or use force: then the job is cancelled`,
    );
  }
};

const otherDisk = (
  known: WorktreeFacts,
  { podName, isAlive }: NonNullable<WorktreeFacts["otherHost"]>,
): string => {
  if (isAlive) return `It is on the disk of the instance ${podName}; ask that one`;
  const choice = isCutOff(known) ? ", or use force: then it is forgotten" : "";
  return `It is on the disk of the instance ${podName}, which does not answer; wait until it is back${choice}`;
};

const forgotten = ({ otherHost }: WorktreeFacts): string =>
  `Forgotten: its instance ${otherHost?.podName} does not answer; should it come back, it saves what is there and removes it`;

/** Ends what uses the worktree, and records the jobs that it cancels. */
const makeFree = async (
  deps: Cleaning,
  known: WorktreeFacts,
  { asked, cancelled }: { asked: CleanupRequest; cancelled: string[] },
): Promise<void> => {
  refuseUnlessFree(known, asked);
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

const unexpected = ({ log, redact }: Cleaning, id: string, error: unknown): string => {
  log.warn({ err: error, worktree: id }, "the worktree could not be removed");
  return redact(`It could not be removed: ${error instanceof Error ? error.message : String(error)}`);
};
