import { isFinal } from "../contract/job.ts";
import type { WorktreeStatus } from "../contract/worktree.ts";
import { repoKey } from "../repos/url.ts";
import type { WorktreeOnDisk } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { WorktreeUse } from "../store/job-store.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import type { Dependencies } from "./dependencies.ts";
import { lastRunIn, isOwnedHere, type OtherHost } from "./other-host.ts";

/**
 * All there is to know of a worktree: its record if it was prepared, what the disk says, the jobs that used it. None of
 * the three is copied into another, so they cannot disagree for longer than a look at them takes.
 */
export type WorktreeFacts = {
  id: string;
  record: WorktreeRecord | null;
  onDisk: WorktreeOnDisk | null;
  uses: WorktreeUse[];
  /** Where a worktree of this id would be made now. */
  home: string;
  /** Null: it is on this instance's disk, or should be. */
  otherHost: OtherHost | null;
};

export type FactSources = Pick<Dependencies, "records" | "repos" | "jobs" | "isAlive" | "settings">;

/** Null: there is no such worktree. */
export const lookUp = async (sources: FactSources, id: string): Promise<WorktreeFacts | null> => {
  const { records, repos, jobs } = sources;
  const [record, found, uses] = await Promise.all([
    records.get(id),
    repos.readWorktree(id),
    jobs.usesOfWorktree(id),
  ]);
  if (found?.isThrowaway === true) return null;
  if (record === null && found === null && uses.length === 0) return null;
  const onDisk = found !== null && (await isOwnedHere(sources, found)) ? found : null;
  const known = { id, record, onDisk, uses, home: repos.worktreePath(id), otherHost: null };
  const otherHost = await otherHostOf(sources, known);
  if (otherHost !== null) return { ...known, onDisk: null, otherHost };
  return record === null && onDisk === null ? null : known;
};

const otherHostOf = async (
  { jobs, isAlive, settings }: FactSources,
  { record, onDisk, uses }: WorktreeFacts,
): Promise<OtherHost | null> => {
  const here = settings.podName;
  if (record !== null) {
    const podName = record.pod_name;
    if (podName === here || onDisk !== null) return null;
    return { podName, isAlive: await isAlive(podName), job: null };
  }
  const job = await lastRunIn(jobs, uses);
  // What is on an inherited disk is where it was.
  if (job === null || job.pod_name === here || onDisk?.instance === job.pod_name) return null;
  return { podName: job.pod_name, isAlive: await isAlive(job.pod_name), job };
};

/** All that are, or should be, on disk. */
export const lookUpAll = async (sources: FactSources): Promise<WorktreeFacts[]> => {
  const [prepared, onDisk] = await Promise.all([sources.records.list(), sources.repos.listWorktreeIds()]);
  const there = prepared.filter(({ status }) => status !== "removed").map(({ worktree_id }) => worktree_id);
  const all = await Promise.all([...new Set([...there, ...onDisk])].map((id) => lookUp(sources, id)));
  return all.filter((known) => known !== null).filter((known) => statusOf(known).status !== "removed");
};

/** Jobs that are at work in it or wait for it. */
export const activeUses = ({ uses }: WorktreeFacts): WorktreeUse[] => uses.filter(isActive);

export const isActive = ({ status, unsettled }: WorktreeUse): boolean => !isFinal(status) || unsettled;

/** The status as the contract has it, and what to say with it. */
export const statusOf = (known: WorktreeFacts): { status: WorktreeStatus; error: string | null } => {
  const { record, onDisk } = known;
  if (known.otherHost !== null) return statusElsewhere(known, known.otherHost);
  if (record?.removing === true) {
    return onDisk === null
      ? { status: "removed", error: null }
      : { status: "failed", error: "It is being removed" };
  }
  if (record !== null && record.status !== "ready") return { status: record.status, error: record.error };
  if (activeUses(known).length > 0) return { status: "in_use", error: null };
  const error = faultOf(known);
  return error === null
    ? { status: "ready", error: onDisk === null ? null : (record?.error ?? null) }
    : { status: "failed", error };
};

/** Told from the record and the jobs: the disk is another's. */
const statusElsewhere = (
  known: WorktreeFacts,
  { podName, isAlive }: OtherHost,
): { status: WorktreeStatus; error: string | null } => {
  const { status = "ready", removing = false, error = null } = known.record ?? {};
  const away = isAlive ? null : `Its instance ${podName} does not answer`;
  if (status === "removed" || status === "failed") return { status, error };
  if (removing) return { status: "failed", error: away ?? "It is being removed" };
  return { status: activeUses(known).length > 0 ? "in_use" : status, error: away ?? error };
};

const faultOf = ({ record, onDisk, home }: WorktreeFacts): string | null => {
  if (onDisk === null) {
    return record === null || record.path === home
      ? "Its owner file under SERVICE_WORKTREE_ROOT/.owned is missing or cannot be read: look at what is left at its path; a cleanup with force forgets it"
      : `It was made under another SERVICE_WORKTREE_ROOT (${record.path}); set that back, or forget it by a cleanup with force`;
  }
  if (!onDisk.ready) return "Its checkout was not finished; clean it up";
  if (!onDisk.directoryExists)
    return "Its directory is gone; a job in it makes it again from its branch, a cleanup removes the rest";
  return null;
};

/** A worktree that was ready and that the disk does not say to be ours any more: whatever is there, we leave it alone. */
export const isOutOfReach = ({ record, onDisk, otherHost }: WorktreeFacts): boolean =>
  otherHost === null && onDisk === null && record?.status === "ready" && !record.removing;

/** On the disk of an instance that does not hold its lease: nobody can look at it or remove it. */
export const isCutOff = ({ record, otherHost }: WorktreeFacts): boolean =>
  record !== null && otherHost !== null && !otherHost.isAlive;

type Facts = {
  repoUrl: string;
  repoKey: string | null;
  baseRef: string;
  branch: string;
  path: string;
  /** Null: this instance. */
  podName: string | null;
  createdAt: Date;
};

/** What the record says where there is one, else what the disk says; but where it is now, the disk knows better. */
export const factsOf = ({ id, record, onDisk, otherHost }: WorktreeFacts): Facts => {
  if (record !== null) {
    return {
      repoUrl: record.repo_url,
      repoKey: record.repo_key,
      baseRef: record.base_ref,
      branch: record.branch,
      path: onDisk?.worktree.path ?? record.path,
      podName: record.pod_name,
      createdAt: new Date(record.created_at),
    };
  }
  if (otherHost !== null && otherHost.job !== null) return factsOfJob(otherHost.job, otherHost.podName);
  if (onDisk === null) throw new Error(`nothing is known of the worktree ${id}`);
  return { ...onDisk.worktree, podName: null, createdAt: onDisk.since };
};

const factsOfJob = (job: JobRecord, podName: string): Facts => ({
  repoUrl: job.repo_url,
  repoKey: job.repo_url === "" ? null : repoKey(job.repo_url),
  baseRef: job.base_ref,
  branch: job.branch ?? `service/${(job.worktree_id ?? job.id).slice(0, 8)}`,
  path: job.worktree_path ?? "",
  podName,
  createdAt: new Date(job.started_at ?? job.created_at),
});
