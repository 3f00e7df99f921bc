import { ServiceError } from "../contract/errors.ts";
import type { RequestContext } from "../contract/operation.ts";
import type { RepositoryUsage, Worktree } from "../contract/worktree.ts";
import { createRetries } from "../lib/retries.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import { cleanUp } from "./cleanup.ts";
import type { Dependencies } from "./dependencies.ts";
import { repositoryUsage } from "./disk.ts";
import { leaveWorktree, tidyWorktrees } from "./keeping.ts";
import { createMeasuring } from "./measure.ts";
import { createPreparing } from "./prepare.ts";
import { factsOf, lookUp, lookUpAll, type Known } from "./state.ts";
import { viewOf } from "./view.ts";

/** What a submission needs to know of the worktree that it names. */
export type NamedWorktree = { id: string; repoUrl: string; baseRef: string; branch: string };

/** What a caller can do with worktrees, and what the service does with them by itself. */
export const createWorktrees = (deps: Dependencies) => {
  const measuring = createMeasuring(deps);
  const preparing = createPreparing(deps);
  const viewing = { ...deps, measuring };
  const retries = createRetries();

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
    usage: (signal: AbortSignal): Promise<RepositoryUsage[]> => repositoryUsage(viewing, signal),

    /**
     * Accepts a job into a worktree: `accept` runs while nothing can take the worktree away.
     * @throws ServiceError `worktree_not_found`, `worktree_not_ready`
     */
    join: <Value>(id: string, accept: (worktree: NamedWorktree) => Promise<Value>): Promise<Value> =>
      deps.turns.inTurn(id, async () => accept(usable(await lookUp(deps, id), id))),
    /** When the time of a job's worktree is over. */
    leave: (job: JobRecord): Promise<void> => leaveWorktree(deps, job),
    /** At start, once the jobs of an earlier start are settled. */
    takeUp: preparing.takeUp,
    tidy: (signal: AbortSignal): Promise<void> => tidyWorktrees(deps, retries, signal),
    /** Resolves when nothing is under way any more; `closing` is to be aborted first. */
    settled: async (): Promise<void> => {
      await preparing.settled();
      await deps.turns.settled();
    },
  };
};

export type Worktrees = ReturnType<typeof createWorktrees>;

const notFound = (id: string): ServiceError =>
  new ServiceError(
    "worktree_not_found",
    `There is no worktree ${id.slice(0, 100)}; list the worktrees to see those there are, or prepare one`,
  );

const removed = (id: string, { salvage_ref: ref }: WorktreeRecord): ServiceError => {
  const work = ref === null ? "" : `, what it held that was not pushed is saved as ${ref}`;
  return new ServiceError("worktree_not_found", `The worktree ${id} was removed${work}; prepare another`);
};

const usable = (known: Known | null, id: string): NamedWorktree => {
  if (known === null) throw notFound(id);
  const why = known.record === null ? null : unusable(known.record);
  if (why !== null) throw new ServiceError("worktree_not_ready", `The worktree ${id} ${why}`);
  if (known.record?.status === "ready" && known.survey === null) {
    throw new ServiceError(
      "worktree_not_ready",
      `The worktree ${id} is not under this service's SERVICE_WORKTREE_ROOT (it was made at ${known.record.path}); set that back, or prepare another`,
    );
  }
  if (known.record?.status === "removed") throw removed(id, known.record);
  if (known.survey?.ready !== true) throw notFound(id);
  const { repoUrl, baseRef, branch } = known.survey.worktree;
  return { id, repoUrl, baseRef, branch };
};

/** Completes "The worktree …"; null: nothing in the record speaks against it. */
const unusable = ({ status, removing, error }: WorktreeRecord): string | null => {
  if (status === "preparing") return "is being prepared; try again when its status is ready";
  if (status === "failed") return `could not be prepared (${error ?? "no reason is known"}); prepare another`;
  if (removing) return "is being removed; prepare another";
  return null;
};
