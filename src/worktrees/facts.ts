import { isFinal } from "../contract/job.ts";
import { repoKey } from "../repos/url.ts";
import { mainId } from "../repos/several.ts";
import type { WorktreeOnDisk } from "../repos/repos.ts";
import type { JobRecord } from "../store/job-record.ts";
import { byAge } from "../store/job-list.ts";
import type { WorktreeUse } from "../store/job-store.ts";
import type { Position } from "../store/records.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import type { Dependencies } from "./dependencies.ts";

/**
 * All facts about a worktree: its record if it was prepared, its state on disk, the jobs that used it. None is derived
 * from another, so they disagree only while they are being read. `status.ts` judges them.
 */
export type WorktreeFacts = {
  id: string;
  record: WorktreeRecord | null;
  /** Null: it has no owner file on this instance's disk. */
  onDisk: WorktreeOnDisk | null;
  uses: WorktreeUse[];
  /** Its removal has begun. */
  removing: boolean;
  /** Where a worktree of this id would be made now. */
  home: string;
  /** The instance that alone can read it; null: it is on this instance's disk, or should be. */
  otherHost: { podName: string; /** It holds its lease. */ isAlive: boolean } | null;
  about: About;
};

/** From its record, the last job that ran in it, or its owner file. */
type About = {
  repoUrl: string;
  repoKey: string | null;
  baseRef: string;
  branch: string;
  path: string;
  podName: string;
  createdAt: Date;
};

export type FactSources = Pick<Dependencies, "records" | "repos" | "jobs" | "isAlive" | "settings">;

/** Null: there is no such worktree. */
export const lookUp = async (sources: FactSources, id: string): Promise<WorktreeFacts | null> => {
  const { records, repos, jobs } = sources;
  const [record, found, uses] = await Promise.all([
    records.get(id),
    repos.readWorktree(id),
    jobs.usesOfWorktree(mainId(id)),
  ]);
  if (found?.isThrowaway === true || (record === null && found === null && uses.length === 0)) return null;
  const onDisk = found !== null && (await isOwnedHere(sources, found)) ? found : null;
  const seen = { id, onDisk, uses, home: repos.worktreePath(id) };
  return record === null ? await factsOfJobs(sources, seen) : await factsOfRecord(sources, seen, record);
};

type Seen = Pick<WorktreeFacts, "id" | "onDisk" | "uses" | "home">;

const factsOfRecord = async ({ isAlive, settings }: FactSources, seen: Seen, record: WorktreeRecord) => {
  const { pod_name: podName, removing } = record;
  // An inherited disk has it where the lost instance left it.
  const isHere = podName === settings.podName || seen.onDisk !== null;
  const about = {
    repoUrl: record.repo_url,
    repoKey: record.repo_key,
    baseRef: record.base_ref,
    branch: record.branch,
    path: seen.onDisk?.worktree.path ?? record.path,
    podName,
    createdAt: new Date(record.created_at),
  };
  const otherHost = isHere ? null : { podName, isAlive: await isAlive(podName) };
  return { ...seen, record, removing, otherHost, about };
};

/** It was not prepared: its jobs and its owner file tell. */
const factsOfJobs = async ({ jobs, isAlive, settings }: FactSources, seen: Seen) => {
  const { onDisk } = seen;
  const run = await lastRunIn(jobs, seen.uses);
  const facts = { ...seen, record: null, removing: run?.stands === false };
  const podName = run?.stands === true ? run.job.pod_name : settings.podName;
  if (run === null || podName === settings.podName || onDisk?.instance === podName) {
    if (onDisk === null) return null;
    const about = { ...onDisk.worktree, podName: settings.podName, createdAt: onDisk.since };
    return { ...facts, otherHost: null, about };
  }
  const { repo_url: repoUrl, base_ref: baseRef, worktree_path, ...job } = run.job;
  const about = {
    repoUrl,
    repoKey: repoUrl === "" ? null : repoKey(repoUrl),
    baseRef,
    branch: job.branch ?? `service/${seen.id.slice(0, 8)}`,
    path: worktree_path ?? "",
    podName,
    createdAt: new Date(job.started_at ?? job.created_at),
  };
  return { ...facts, onDisk: null, otherHost: { podName, isAlive: await isAlive(podName) }, about };
};

/** All that are, or should be, on disk: oldest first. Some may prove to be none. */
export const listByAge = async ({ records, repos }: FactSources): Promise<Position[]> => {
  const [prepared, onDisk] = await Promise.all([records.list(), repos.listWorktreeIds()]);
  const there = prepared.filter(({ status }) => status !== "removed");
  const made = new Map(there.map(({ worktree_id, created_at }) => [worktree_id, Date.parse(created_at)]));
  const others = onDisk.filter((id) => !made.has(id));
  const since = await Promise.all(others.map((id) => repos.worktreeSince(id)));
  for (const [nth, id] of others.entries()) made.set(id, since[nth]?.getTime() ?? 0);
  return Array.from(made, ([id, at]) => ({ id, at })).toSorted(byAge);
};

export const lookUpAll = async (sources: FactSources): Promise<WorktreeFacts[]> =>
  lookUpThese(sources, await listByAge(sources));

export const lookUpThese = async (sources: FactSources, positions: readonly Position[]) => {
  const all = await Promise.all(positions.map(({ id }) => lookUp(sources, id)));
  return all.filter((known) => known !== null).filter((known) => !isGone(known));
};

const isGone = ({ record, onDisk, removing, otherHost }: WorktreeFacts): boolean =>
  record?.status === "removed" || (removing && onDisk === null && otherHost === null);

/** Jobs that run in it or wait for it. */
export const activeUses = ({ uses }: Pick<WorktreeFacts, "uses">): WorktreeUse[] => uses.filter(isActive);

export const isActive = ({ status, unsettled }: Pick<WorktreeUse, "status" | "unsettled">): boolean =>
  !isFinal(status) || unsettled;

/**
 * Whether this instance owns a worktree under its root: it made it, or a lost instance did and left its disk. A
 * worktree of another living instance is there because two services use one root by mistake.
 */
export const isOwnedHere = async (
  { isAlive, settings }: Pick<FactSources, "isAlive" | "settings">,
  { instance }: WorktreeOnDisk,
): Promise<boolean> => instance === settings.podName || !(await isAlive(instance));

type LastRun = { job: JobRecord & { pod_name: string }; stands: boolean };

/** The last job that ran in an unprepared worktree, and whether it stands; null: none. A bound job that waits needs it. */
const lastRunIn = async (jobs: FactSources["jobs"], uses: WorktreeUse[]): Promise<LastRun | null> => {
  let isBound = false;
  for (const { jobId } of uses.toReversed()) {
    const job = await jobs.get(jobId);
    if (job === null) continue;
    const { pod_name, status, bound_to, worktree_path, worktree_removed_at } = job;
    if (status !== "queued" && pod_name !== null && worktree_path !== null)
      return { job: { ...job, pod_name }, stands: worktree_removed_at === null || isBound };
    isBound ||= !isFinal(status) && bound_to !== null;
  }
  return null;
};
