import { isFinal } from "../contract/job.ts";
import type { WorktreeStatus } from "../contract/worktree.ts";
import { repoKey } from "../repos/url.ts";
import type { WorktreeOnDisk } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { WorktreeUse } from "../store/job-store.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import type { Dependencies } from "./dependencies.ts";

/**
 * All facts about a worktree: its record if it was prepared, its state on disk, the jobs that used it. None is derived
 * from another, so they disagree only while they are being read.
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
  // An inherited disk has it where the lost instance left it.
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

/** Jobs that run in it or wait for it. */
export const activeUses = ({ uses }: WorktreeFacts): WorktreeUse[] => uses.filter(isActive);

export const isActive = ({ status, unsettled }: WorktreeUse): boolean => !isFinal(status) || unsettled;

/** Its status in the contract, with an explanation. */
export const statusOf = (known: WorktreeFacts): { status: WorktreeStatus; error: string | null } => {
  const { record, onDisk } = known;
  if (known.otherHost !== null) return statusOnOtherHost(known, known.otherHost);
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

/** Judged from the record and the jobs: the disk belongs to another instance. */
const statusOnOtherHost = (
  known: WorktreeFacts,
  { podName, isAlive }: OtherHost,
): { status: WorktreeStatus; error: string | null } => {
  const { status = "ready", removing = false, error = null } = known.record ?? {};
  const unreachable = isAlive ? null : `Its instance ${podName} does not answer`;
  if (status === "removed" || status === "failed") return { status, error };
  if (removing) return { status: "failed", error: unreachable ?? "It is being removed" };
  return { status: activeUses(known).length > 0 ? "in_use" : status, error: unreachable ?? error };
};

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
export const isOutOfReach = ({ record, onDisk, otherHost }: WorktreeFacts): boolean =>
  otherHost === null && onDisk === null && record?.status === "ready" && !record.removing;

/** On the disk of an instance without a lease: no instance can read or remove it. */
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

/** From the record if there is one, else from the disk; the path always from the disk. */
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

/** A worktree on the disk of another instance, which alone can read it. */
type OtherHost = {
  podName: string;
  /** Whether that instance holds its lease. */
  isAlive: boolean;
  /** The last job in it, for a worktree that was not prepared. */
  job: JobRecord | null;
};

type Sources = Pick<Dependencies, "jobs" | "isAlive"> & { settings: { podName: string } };

/**
 * Whether this instance owns a worktree under its root: it made it, or a lost instance did and left its disk. A
 * worktree of another living instance is there because two services use one root by mistake.
 */
export const isOwnedHere = async (
  { isAlive, settings }: Omit<Sources, "jobs">,
  { instance }: WorktreeOnDisk,
): Promise<boolean> => instance === settings.podName || !(await isAlive(instance));

/**
 * The last job that ran in an unprepared worktree that still exists, judged from the jobs; null: none. A waiting job
 * has no location, but if it is bound to an instance the worktree exists.
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

/** Whether a job runs here, waits for this instance, or left something here to clean up. */
export const concerns = (
  { status, unsettled, pod_name, bound_to }: JobRecord,
  { podName }: { podName: string },
): boolean => (status === "queued" ? bound_to : pod_name) === podName && (!isFinal(status) || unsettled);
