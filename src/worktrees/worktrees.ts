import type { RequestContext } from "../contract/operation.ts";
import type { Lock } from "../store/locks.ts";
import type { RepositoryUsage, Worktree } from "../contract/worktree.ts";
import { createRetries } from "../lib/retries.ts";
import { byAge, parseCursor, toCursor } from "../store/job-list.ts";
import { type JobRecord, presumedBase } from "../store/job-record.ts";
import { cleanUp } from "./cleanup.ts";
import type { Dependencies } from "./dependencies.ts";
import { repositoryUsage } from "./disk.ts";
import { joinWorktree, notFound, type NamedWorktree } from "./join.ts";
import { releaseWorktree, applyRetention } from "./retention.ts";
import { createMeasuring, type Measured } from "./measure.ts";
import { createJobDiff } from "./job-diff.ts";
import { createPreparing } from "./prepare.ts";
import { listByAge, lookUp, lookUpThese, isActive, type WorktreeFacts } from "./facts.ts";
import { removeOrphans } from "./orphans.ts";
import { lockForRemoval } from "./removal.ts";
import { worktreeStatus } from "./status.ts";

export const createWorktrees = (deps: Dependencies) => {
  const measuring = createMeasuring(deps);
  const preparing = createPreparing(deps);
  const viewing = { ...deps, measuring };
  const { repos, settings, now, log } = deps;
  const told = new Map<string, string[]>();
  const [expired, orphaned] = [createRetries(), createRetries()];
  const sweepOrphans = atMostEvery(60_000, now, (signal) => removeOrphans(deps, orphaned, signal));

  const expireRefs = atMostEvery(3_600_000, now, async (signal) => {
    const refs = await repos.expireRefs(new Date(now().getTime() - settings.salvageTtl * 1000), signal);
    if (refs > 0) log.info({ refs }, "saved work older than SERVICE_SALVAGE_TTL was deleted");
  });

  const get = async (id: string): Promise<Worktree> => {
    const known = await lookUp(deps, id);
    if (known === null) throw notFound(id);
    return viewOf(deps, known, await measuring.measure(known));
  };

  return {
    prepare: async (
      input: { repo_url: string; base_ref: string },
      context: RequestContext,
    ): Promise<Worktree> => get(await preparing.prepare(input, context)),
    get,
    /** A page, oldest first, with what is known of their sizes. */
    list: async ({ limit, cursor }: { limit: number; cursor: string }) => {
      const after = cursor === "" ? null : parseCursor(cursor);
      const all = await listByAge(deps);
      measuring.keepOnly(new Set(all.map(({ id }) => id)));
      const left = all.filter((each) => after === null || byAge(after, each) < 0);
      const page = left.slice(0, limit);
      const shown = await lookUpThese(deps, page);
      const measured = await measuring.measureAll(shown);
      const last = left.length > limit ? page.at(-1) : undefined;
      return {
        worktrees: shown.map((known, nth) => viewOf(deps, known, measured[nth] ?? null)),
        next: last === undefined ? null : toCursor(last),
      };
    },
    cleanup: (
      asked: Parameters<typeof cleanUp>[1],
      { progress }: Pick<RequestContext, "progress">,
    ): ReturnType<typeof cleanUp> =>
      cleanUp({ ...viewing, told, stopPreparing: preparing.stop }, asked, progress),
    diff: createJobDiff(deps),
    usage: (): Promise<RepositoryUsage[]> => repositoryUsage(viewing),

    /**
     * Accepts a job into a worktree: `accept` stores it while the worktree cannot be removed.
     * @throws ServiceError `worktree_not_found`, `worktree_not_ready`
     */
    join: <Value>(id: string, accept: (worktree: NamedWorktree) => Promise<Value>): Promise<Value> =>
      joinWorktree(deps, id, accept),
    /** Keeps jobs out of a worktree until it is released; null: somebody else has it. */
    lock: (id: string): Promise<Lock | null> => lockForRemoval(deps, id),
    /** Called when the time of a job's worktree is over. The caller has its lock. */
    release: (job: JobRecord, lost: AbortSignal): Promise<void> => releaseWorktree(deps, job, lost),
    /** At start, once the jobs of an earlier start are settled. */
    recover: preparing.resume,
    applyRetention: async (signal: AbortSignal): Promise<void> => {
      await applyRetention(deps, expired, signal);
      await sweepOrphans(signal);
      await expireRefs(signal);
    },
    /** Resolves when no preparation is in flight; abort `closing` first. */
    settled: preparing.settled,
  };
};

export type Worktrees = ReturnType<typeof createWorktrees>;

type Round = (signal: AbortSignal) => Promise<void>;

/** Also when the clock is set back. */
const atMostEvery = (ms: number, now: () => Date, round: Round): Round => {
  let last = Number.NEGATIVE_INFINITY;
  return async (signal) => {
    const at = now().getTime();
    if (Math.abs(at - last) < ms) return;
    last = at;
    await round(signal);
  };
};

type Viewing = Pick<Dependencies, "repos" | "now">;

const viewOf = ({ repos, now }: Viewing, known: WorktreeFacts, measured: Measured | null): Worktree => {
  const { id, record, uses, about } = known;
  return {
    worktree_id: id,
    repo_url: about.repoUrl,
    repo_key: about.repoKey,
    base_ref: about.baseRef || presumedBase,
    branch: about.branch,
    path: about.path,
    ...worktreeStatus(known),
    job_id: (atWork(uses) ?? uses.find(isActive) ?? uses.at(-1))?.jobId ?? null,
    pod_name: about.podName,
    created_at: about.createdAt.toISOString(),
    age_hours: ageHours(about.createdAt, now()),
    size_bytes: measured?.size ?? null,
    pushed: measured?.pushed ?? null,
    measured_at: isMeasured(measured) ? measured.at.toISOString() : null,
    prepared: record !== null,
    salvage_ref: record?.salvage_ref ?? null,
    cached_clone: known.otherHost === null ? repos.savedClone(about.repoKey) : null,
    warnings: warningsOf(known),
  };
};

const isMeasured = (measured: Measured | null): measured is Measured =>
  measured !== null && (measured.size !== null || measured.pushed !== null);

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
