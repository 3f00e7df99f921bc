import type { WorktreeStatus } from "../contract/worktree.ts";
import { activeUses, type WorktreeFacts } from "./facts.ts";

/**
 * What becomes of the facts. The first row that applies decides:
 *
 * | where           | its record or its last job   | jobs in it or waiting | status                               |
 * |-----------------|------------------------------|-----------------------|--------------------------------------|
 * | other instance  | removed, failed              | any                   | that                                 |
 * | other instance  | its removal has begun        | any                   | failed                               |
 * | other instance  | anything else                | some                  | in_use                               |
 * | other instance  | anything else                | none                  | preparing or ready, as recorded      |
 * | here            | its removal has begun        | any                   | failed; removed without owner file   |
 * | here            | preparing, failed, removed   | any                   | that                                 |
 * | here            | ready, or it has no record   | some                  | in_use                               |
 * | here            | ready, or it has no record   | none                  | failed if the disk lacks some of it  |
 * | here            | ready, or it has no record   | none                  | ready                                |
 *
 * `error` says what is wrong and, of another instance, that it does not answer.
 */
export const worktreeStatus = (known: WorktreeFacts): Status =>
  known.otherHost === null ? statusHere(known) : statusElsewhere(known, known.otherHost);

type Status = { status: WorktreeStatus; error: string | null };

const statusElsewhere = (
  known: WorktreeFacts,
  { podName, isAlive }: NonNullable<WorktreeFacts["otherHost"]>,
): Status => {
  const { status = "ready", error = null } = known.record ?? {};
  const unreachable = isAlive ? null : `Its instance ${podName} does not answer`;
  if (status === "removed" || status === "failed") return { status, error };
  if (known.removing) return { status: "failed", error: unreachable ?? beingRemoved };
  return { status: activeUses(known).length > 0 ? "in_use" : status, error: unreachable ?? error };
};

const statusHere = (known: WorktreeFacts): Status => {
  const { record, onDisk, removing } = known;
  if (removing && onDisk === null) return { status: "removed", error: null };
  if (removing) return { status: "failed", error: beingRemoved };
  if (record !== null && record.status !== "ready") return { status: record.status, error: record.error };
  if (activeUses(known).length > 0) return { status: "in_use", error: null };
  const fault = faultOf(known);
  return { status: fault === null ? "ready" : "failed", error: fault };
};

const beingRemoved = "It is being removed";

const faultOf = ({ record, onDisk, home }: WorktreeFacts): string | null => {
  if (onDisk === null) {
    return record === null || record.path === home
      ? "Its owner file under SERVICE_WORKTREE_ROOT/.owned is missing or cannot be read: look at what is left at its path; a cleanup with force forgets it"
      : `It was made under another SERVICE_WORKTREE_ROOT (${record.path}); set that back, or forget it by a cleanup with force`;
  }
  if (!onDisk.ready) return "Its checkout was not finished; clean it up";
  if (!onDisk.directoryExists)
    return "Its directory is missing; a job in it makes it again from its branch, a cleanup removes the rest";
  return null;
};

/** A worktree that was ready and that has no owner file here any more: its directory is left alone. */
export const isOutOfReach = ({ record, onDisk, otherHost, removing }: WorktreeFacts): boolean =>
  otherHost === null && onDisk === null && record?.status === "ready" && !removing;

/** On the disk of an instance without a lease: no instance can read or remove it. */
export const isCutOff = ({ record, otherHost }: WorktreeFacts): boolean =>
  record !== null && otherHost !== null && !otherHost.isAlive;

/** Why it takes no job, to complete "The worktree …"; null: it takes one. */
export const refusalOfJobs = (known: WorktreeFacts): string | null => {
  const { record, otherHost, removing } = known;
  if (record?.status === "preparing") return "is being prepared; try again when its status is ready";
  if (record?.status === "failed")
    return `could not be prepared (${record.error ?? "no reason is known"}); prepare another`;
  if (removing) return "is being removed; prepare another";
  if (otherHost?.isAlive === false)
    return `cannot be used now: its instance ${otherHost.podName} does not answer; try again when it is back, or prepare another`;
  return record !== null && isOutOfReach(known)
    ? `is not under this service's SERVICE_WORKTREE_ROOT (it was made at ${record.path}); set that back, or prepare another`
    : null;
};

/** Why it must stay as it is; null: it may be removed, with `force` once its jobs are cancelled. */
export const refusalOfRemoval = (known: WorktreeFacts, force: boolean): string | null => {
  const { record, otherHost } = known;
  if (otherHost !== null && !(force && isCutOff(known))) {
    const place = `It is on the disk of the instance ${otherHost.podName}`;
    if (otherHost.isAlive) return `${place}; ask that one`;
    const choice = isCutOff(known) ? ", or use force: then it is forgotten" : "";
    return `${place}, which does not answer; wait until it is back${choice}`;
  }
  if (force) return null;
  if (isOutOfReach(known)) return worktreeStatus(known).error;
  if (record?.status === "preparing") return "It is being prepared; wait until it is ready, or use force";
  const jobs = activeUses(known).map(({ jobId, status }) => `${jobId} (${status})`);
  return jobs.length === 0
    ? null
    : `It is in use by job ${jobs.join(", ")}; wait for its end, or use force: then the job is cancelled`;
};
