import { ServiceError } from "../contract/errors.ts";
import { poll } from "../lib/wait.ts";
import { lockOf } from "../store/locks.ts";
import type { Dependencies } from "./dependencies.ts";
import { lookUp } from "./facts.ts";
import { refusalOfJobs } from "./status.ts";

export type NamedWorktree = {
  id: string;
  repoUrl: string;
  baseRef: string;
  branch: string;
  /** Instance on whose disk it is; null: there is only one. */
  boundTo: string | null;
};

/** How long a submission waits for others and for a removal, ms. */
const longestWait = 10_000;

/**
 * Accepts a job into a worktree: `accept` stores it while the worktree cannot be removed, on whatever instance.
 * @throws ServiceError `worktree_not_found`, `worktree_not_ready`
 */
export const joinWorktree = async <Value>(
  deps: Dependencies,
  id: string,
  accept: (worktree: NamedWorktree) => Promise<Value>,
): Promise<Value> => {
  const waiting = { first: 5, longest: 200, signal: deps.closing, deadline: performance.now() + longestWait };
  await using lock = await poll(() => deps.locks.take(lockOf.join(id)), waiting);
  if (lock === null) throw notReady(id, "is being removed; try again, or prepare another");
  const known = await lookUp(deps, id);
  if (known === null) throw notFound(id);
  const { record, onDisk, otherHost, about } = known;
  if (record?.status === "removed") throw removed(id, record.salvage_ref);
  const why = refusalOfJobs(known);
  if (why !== null) throw notReady(id, why);
  if (otherHost === null && onDisk?.ready !== true) throw notFound(id);
  const { repoUrl, baseRef, branch } = onDisk?.worktree ?? about;
  const owner = otherHost?.podName ?? deps.settings.podName;
  return await accept({ id, repoUrl, baseRef, branch, boundTo: deps.settings.shared ? owner : null });
};

export const notFound = (id: string): ServiceError =>
  new ServiceError(
    "worktree_not_found",
    `There is no worktree ${id.slice(0, 100)}; list the worktrees to see those there are, and give at least four digits of an id, or prepare one`,
  );

const removed = (id: string, ref: string | null): ServiceError => {
  const work = ref === null ? "" : `, what it held that was not pushed is saved as ${ref}`;
  return new ServiceError("worktree_not_found", `The worktree ${id} was removed${work}; prepare another`);
};

const notReady = (id: string, why: string): ServiceError =>
  new ServiceError("worktree_not_ready", `The worktree ${id} ${why}`);
