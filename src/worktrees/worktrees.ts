import type { RequestContext } from "../contract/operation.ts";
import type { RepositoryUsage, Worktree } from "../contract/worktree.ts";
import { createRetries } from "../lib/retries.ts";
import type { JobRecord } from "../store/job-record.ts";
import { cleanUp } from "./cleanup.ts";
import type { Dependencies } from "./dependencies.ts";
import { repositoryUsage } from "./disk.ts";
import { joinWorktree, notFound, type NamedWorktree } from "./join.ts";
import { releaseWorktree, applyRetention } from "./retention.ts";
import { createMeasuring } from "./measure.ts";
import { createPreparing } from "./prepare.ts";
import { factsOf, lookUp, lookUpAll } from "./facts.ts";
import { createOrphanSweep } from "./orphans.ts";
import { viewOf } from "./view.ts";

/** What a caller can do with worktrees, and what the service does with them by itself. */
export const createWorktrees = (deps: Dependencies) => {
  const measuring = createMeasuring(deps);
  const preparing = createPreparing(deps);
  const viewing = { ...deps, measuring };
  const retries = createRetries();
  const strays = createOrphanSweep(deps);

  let expired = Number.NEGATIVE_INFINITY;

  /** Deletes saved work that is past its time, once an hour. */
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
    ): ReturnType<typeof cleanUp> => cleanUp({ ...viewing, stopPreparing: preparing.stop }, asked, progress),
    usage: (): Promise<RepositoryUsage[]> => repositoryUsage(viewing),

    /**
     * Accepts a job into a worktree: `accept` stores it while nothing can take the worktree away.
     * @throws ServiceError `worktree_not_found`, `worktree_not_ready`
     */
    join: <Value extends { id: string }>(
      id: string,
      accept: (worktree: NamedWorktree) => Promise<Value>,
    ): Promise<Value> => deps.mutex.runExclusive(id, () => joinWorktree(deps, id, accept)),
    /** When the time of a job's worktree is over. */
    leave: (job: JobRecord): Promise<void> => releaseWorktree(deps, job),
    /** At start, once the jobs of an earlier start are settled. */
    takeUp: preparing.takeUp,
    tidy: async (signal: AbortSignal): Promise<void> => {
      await applyRetention(deps, retries, signal);
      await strays.tidy(signal);
      await expire(signal);
    },
    /** Resolves when nothing is under way any more; `closing` is to be aborted first. */
    settled: async (): Promise<void> => {
      await preparing.settled();
      await deps.mutex.idle();
    },
  };
};

export type Worktrees = ReturnType<typeof createWorktrees>;
