import type { RequestContext } from "../contract/operation.ts";
import type { RepositoryUsage, Worktree } from "../contract/worktree.ts";
import { createRetries } from "../lib/retries.ts";
import { type JobRecord, presumedBase } from "../store/job-record.ts";
import { cleanUp } from "./cleanup.ts";
import type { Dependencies } from "./dependencies.ts";
import { repositoryUsage } from "./disk.ts";
import { joinWorktree, notFound, type NamedWorktree } from "./join.ts";
import { releaseWorktree, applyRetention } from "./retention.ts";
import { createMeasuring, type Measuring } from "./measure.ts";
import { createJobDiff } from "./job-diff.ts";
import { createPreparing } from "./prepare.ts";
import { factsOf, lookUp, lookUpAll, isActive, statusOf, type WorktreeFacts } from "./facts.ts";
import { createOrphanSweep } from "./orphans.ts";

/** Operations on worktrees, for callers and for the service itself. */
export const createWorktrees = (deps: Dependencies) => {
  const measuring = createMeasuring(deps);
  const preparing = createPreparing(deps);
  const viewing = { ...deps, measuring };
  const retries = createRetries();
  const orphans = createOrphanSweep(deps);
  const told = new Map<string, string[]>();

  let expired = Number.NEGATIVE_INFINITY;

  /** Deletes expired salvage refs, once an hour. */
  const expire = async (signal: AbortSignal): Promise<void> => {
    const { repos, settings, now, log } = deps;
    const at = now().getTime();
    if (Math.abs(at - expired) < 3_600_000) return;
    expired = at;
    const refs = await repos.expireRefs(new Date(at - settings.salvageTtl * 1000), signal);
    if (refs > 0) log.info({ refs }, "saved work older than SERVICE_SALVAGE_TTL was deleted");
  };

  const get = async (id: string): Promise<Worktree> => {
    const known = await lookUp(deps, id);
    if (known === null) throw notFound(id);
    return viewOf(viewing, known);
  };

  return {
    prepare: async (
      input: { repo_url: string; base_ref: string },
      context: RequestContext,
    ): Promise<Worktree> => get(await preparing.prepare(input, context)),
    get,
    /** Oldest first. */
    list: async (): Promise<Worktree[]> => {
      const all = await lookUpAll(deps);
      const born = new Map(all.map((known) => [known, factsOf(known).createdAt.getTime()]));
      const inOrder = all.toSorted(
        (a, b) => (born.get(a) ?? 0) - (born.get(b) ?? 0) || (a.id < b.id ? -1 : 1),
      );
      return Promise.all(inOrder.map((known) => viewOf(viewing, known)));
    },
    cleanup: (
      asked: Parameters<typeof cleanUp>[1],
      { progress }: Pick<RequestContext, "progress">,
    ): ReturnType<typeof cleanUp> =>
      cleanUp({ ...viewing, told, stopPreparing: preparing.stop }, asked, progress),
    /** The change of a job. */
    diff: createJobDiff(deps),
    usage: (): Promise<RepositoryUsage[]> => repositoryUsage(viewing),

    /**
     * Accepts a job into a worktree: `accept` stores it while the worktree cannot be removed.
     * @throws ServiceError `worktree_not_found`, `worktree_not_ready`
     */
    join: <Value extends { id: string }>(
      id: string,
      accept: (worktree: NamedWorktree) => Promise<Value>,
    ): Promise<Value> => deps.mutex.runExclusive(id, () => joinWorktree(deps, id, accept)),
    /** Called when the time of a job's worktree is over. */
    release: (job: JobRecord): Promise<void> => releaseWorktree(deps, job),
    /** At start, once the jobs of an earlier start are settled. */
    recover: preparing.resume,
    applyRetention: async (signal: AbortSignal): Promise<void> => {
      await applyRetention(deps, retries, signal);
      await orphans.sweep(signal);
      await expire(signal);
    },
    /** Resolves when nothing is in flight; abort `closing` first. */
    settled: async (): Promise<void> => {
      await preparing.settled();
      await deps.mutex.idle();
    },
  };
};

export type Worktrees = ReturnType<typeof createWorktrees>;

type Viewing = Pick<Dependencies, "repos" | "settings" | "now"> & { measuring: Measuring };

/** A worktree in the form of the contract. */
const viewOf = async (
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
    `It is on the disk of the instance ${otherHost.podName}, which alone knows its size and whether everything is pushed`,
  ];
};

const atWork = (uses: WorktreeFacts["uses"]): WorktreeFacts["uses"][number] | undefined =>
  uses.find((use) => isActive(use) && use.status !== "queued");

/** To two decimals; never negative, even if the clock was set back. */
const ageHours = (from: Date, to: Date): number =>
  Math.max(0, Math.round((to.getTime() - from.getTime()) / 36_000) / 100);
