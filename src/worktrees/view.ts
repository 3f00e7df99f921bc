import type { Worktree } from "../contract/worktree.ts";
import { presumedBase } from "../store/job-record.ts";
import type { Dependencies } from "./dependencies.ts";
import type { Measuring } from "./measure.ts";
import { factsOf, isActive, statusOf, type WorktreeFacts } from "./facts.ts";

type Viewing = Pick<Dependencies, "repos" | "settings" | "now"> & { measuring: Measuring };

/** A worktree as the doors send it. */
export const viewOf = async (
  { repos, settings, now, measuring }: Viewing,
  known: WorktreeFacts,
): Promise<Worktree> => {
  const { id, record, uses } = known;
  const facts = factsOf(known);
  const { size, pushed } = await measuring.measure(known);
  return {
    worktree_id: id,
    repo_url: facts.repoUrl,
    repo_key: facts.repoKey,
    base_ref: facts.baseRef || presumedBase,
    branch: facts.branch,
    path: facts.path,
    ...statusOf(known),
    job_id: (atWork(uses) ?? uses.find(isActive) ?? uses.at(-1))?.jobId ?? null,
    pod_name: facts.podName ?? settings.podName,
    created_at: facts.createdAt.toISOString(),
    age_hours: ageHours(facts.createdAt, now()),
    size_bytes: size,
    pushed,
    prepared: record !== null,
    salvage_ref: record?.salvage_ref ?? null,
    cached_clone: known.otherHost === null ? repos.cachedClone(facts.repoKey) : null,
    warnings: warningsOf(known),
  };
};

const warningsOf = ({ onDisk, otherHost }: WorktreeFacts): string[] => {
  if (otherHost === null)
    return [...(onDisk?.worktree.warnings ?? []), ...(onDisk?.kept ?? []).map((what) => `kept: ${what}`)];
  return [
    `It is on the disk of the instance ${otherHost.podName}, which alone can tell its size and whether everything is pushed`,
  ];
};

const atWork = (uses: WorktreeFacts["uses"]): WorktreeFacts["uses"][number] | undefined =>
  uses.find((use) => isActive(use) && use.status !== "queued");

/** To two decimals; never negative, should the clock have been set back. */
const ageHours = (from: Date, to: Date): number =>
  Math.max(0, Math.round((to.getTime() - from.getTime()) / 36_000) / 100);
