import { ServiceError } from "../contract/errors.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import { poll } from "../lib/wait.ts";
import type { Dependencies } from "./dependencies.ts";
import { lastRunIn, factsOf, isOutOfReach, lookUp, type WorktreeFacts } from "./facts.ts";

/** What a submission needs to know of the worktree that it names. */
export type NamedWorktree = {
  id: string;
  repoUrl: string;
  baseRef: string;
  branch: string;
  /** Instance on whose disk it is. */
  boundTo: string;
};

/**
 * How long to wait for an announced removal by another instance to finish or to be withdrawn, ms. For a worktree that
 * was not prepared, only a withdrawal can be seen.
 */
const removalTimeout = { prepared: 5000, ofJob: 1000 };

/**
 * Accepts a job into a worktree: `accept` stores it while the worktree cannot be removed. Another instance's worktree
 * cannot be locked: this function stores the job and then checks that the worktree still exists, as the other instance
 * announces a removal and then checks for jobs. To be called under the worktree's mutex.
 * @throws ServiceError `worktree_not_found`, `worktree_not_ready`
 */
export const joinWorktree = async <Value extends { id: string }>(
  deps: Dependencies,
  id: string,
  accept: (worktree: NamedWorktree) => Promise<Value>,
): Promise<Value> => {
  const known = await lookUp(deps, id);
  const accepted = await accept(usable(known, id, deps.settings.podName));
  if (known === null || known.otherHost === null || (await stillExists(deps, known, accepted.id)))
    return accepted;
  // Its agent, if it has started already, ends in the background.
  const atOnce = AbortSignal.abort(new Error("its end is not waited for"));
  await deps
    .endJob(accepted.id, "Cancelled: its worktree was removed when the job was submitted", atOnce)
    .catch((error: unknown) => {
      if (error !== atOnce.reason) throw error;
    });
  throw removedError(id);
};

const stillExists = async (deps: Dependencies, known: WorktreeFacts, jobId: string): Promise<boolean> => {
  const deadline =
    performance.now() + (known.record === null ? removalTimeout.ofJob : removalTimeout.prepared);
  const settled = async (): Promise<"exists" | "removed" | null> => {
    const state = await stateOf(deps, known, jobId);
    return state === "removing" ? null : state;
  };
  const waiting = { first: 5, longest: 200, signal: deps.closing, deadline };
  return (await poll(settled, waiting)) === "exists";
};

/** `removing`: its removal is announced, and will finish or be withdrawn. */
const stateOf = async (
  { records, jobs }: Dependencies,
  { id, record }: WorktreeFacts,
  jobId: string,
): Promise<"exists" | "removing" | "removed"> => {
  if (record === null) {
    const others = (await jobs.usesOfWorktree(id)).filter((use) => use.jobId !== jobId);
    return (await lastRunIn(jobs, others)) === null ? "removing" : "exists";
  }
  const now = await records.get(id);
  if (now === null || now.status !== "ready") return "removed";
  return now.removing ? "removing" : "exists";
};

export const notFound = (id: string): ServiceError =>
  new ServiceError(
    "worktree_not_found",
    `There is no worktree ${id.slice(0, 100)}; list the worktrees to see those there are, and give at least four digits of an id, or prepare one`,
  );

const removedError = (id: string): ServiceError =>
  new ServiceError("worktree_not_found", `The worktree ${id} was removed in the meantime; prepare another`);

const removed = (id: string, { salvage_ref: ref }: WorktreeRecord): ServiceError => {
  const work = ref === null ? "" : `, what it held that was not pushed is saved as ${ref}`;
  return new ServiceError("worktree_not_found", `The worktree ${id} was removed${work}; prepare another`);
};

const usable = (known: WorktreeFacts | null, id: string, podName: string): NamedWorktree => {
  if (known === null) throw notFound(id);
  if (known.record?.status === "removed") throw removed(id, known.record);
  const why = (known.record === null ? null : unusable(known.record)) ?? outOfReach(known);
  if (why !== null) throw new ServiceError("worktree_not_ready", `The worktree ${id} ${why}`);
  const { otherHost, onDisk } = known;
  if (otherHost !== null) return { ...namedBy(id, factsOf(known)), boundTo: otherHost.podName };
  if (onDisk?.ready !== true) throw notFound(id);
  return { ...namedBy(id, onDisk.worktree), boundTo: podName };
};

const namedBy = (
  id: string,
  { repoUrl, baseRef, branch }: Omit<NamedWorktree, "id" | "boundTo">,
): Omit<NamedWorktree, "boundTo"> => ({ id, repoUrl, baseRef, branch });

/** Completes "The worktree …"; null: it can be reached. */
const outOfReach = (known: WorktreeFacts): string | null => {
  const { record, otherHost } = known;
  if (otherHost !== null && !otherHost.isAlive)
    return `cannot be used now: its instance ${otherHost.podName} does not answer; try again when it is back, or prepare another`;
  return record !== null && isOutOfReach(known)
    ? `is not under this service's SERVICE_WORKTREE_ROOT (it was made at ${record.path}); set that back, or prepare another`
    : null;
};

/** Completes "The worktree …"; null: its record allows it. */
const unusable = ({ status, removing, error }: WorktreeRecord): string | null => {
  if (status === "preparing") return "is being prepared; try again when its status is ready";
  if (status === "failed") return `could not be prepared (${error ?? "no reason is known"}); prepare another`;
  if (removing) return "is being removed; prepare another";
  return null;
};
