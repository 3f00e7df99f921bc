import { setTimeout as delay } from "node:timers/promises";
import pLimit from "p-limit";
import { ServiceError, type ErrorCode } from "../contract/errors.ts";
import type { RequestContext } from "../contract/operation.ts";
import { RepoError } from "../repos/repos.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import type { Dependencies } from "./dependencies.ts";

/** Longest wait of a caller, ms: below the time limit of MCP clients. */
const maxWait = 45_000;

/** Interval of progress messages to a waiting caller, ms. */
const heartbeat = 5000;

/** A preparation during which the service ended this often is not retried: it may be the cause. */
const maxAttempts = 3;

type Ended = { error: ServiceError | null };

/** Makes worktrees ahead of their jobs. A preparation continues when its caller leaves, and after a restart. */
export const createPreparing = (deps: Dependencies) => {
  const { records, repos, settings, now, log } = deps;
  const limit = pLimit(settings.maxParallelJobs);
  const inFlight = new Map<string, { stop: AbortController; phase: string; ended: Promise<Ended> }>();

  /** Preparations of this start, registered before their records are stored: recovery must skip them. */
  const own = new Set<string>();

  const begin = (record: WorktreeRecord): Promise<Ended> => {
    const stop = new AbortController();
    const ended = limit(() => run(record, AbortSignal.any([stop.signal, deps.closing]))).finally(() => {
      inFlight.delete(record.worktree_id);
      own.delete(record.worktree_id);
    });
    inFlight.set(record.worktree_id, { stop, phase: "waiting for its turn", ended });
    return ended;
  };

  const run = async (record: WorktreeRecord, signal: AbortSignal): Promise<Ended> => {
    const { worktree_id: id } = record;
    const enter = (phase: string): void => {
      const entry = inFlight.get(id);
      if (entry !== undefined) entry.phase = phase;
    };
    try {
      signal.throwIfAborted();
      enter("fetching the repository");
      const repo = await repos.fetch({ url: record.repo_url, jobId: id, signal });
      enter("checking out");
      const { baseRef } = await repos.addWorktree({
        repo,
        worktreeId: id,
        jobId: id,
        branch: record.branch,
        baseRef: record.base_ref,
        signal,
      });
      const ready = { status: "ready" as const, base_ref: baseRef, used_at: now().toISOString() };
      await records.update(id, ["preparing"], ready);
      log.info({ worktree: id }, "worktree prepared");
      return { error: null };
    } catch (error) {
      return { error: await fail(id, error, signal) };
    }
  };

  const fail = async (id: string, error: unknown, signal: AbortSignal): Promise<ServiceError> => {
    if (deps.closing.aborted) {
      return new ServiceError(
        "draining",
        `The service was stopped while it prepared the worktree ${id}; the next start continues it`,
        { retryAfter: 10 },
      );
    }
    const failure = signal.aborted
      ? new ServiceError("worktree_failed", `The worktree ${id} was removed while it was being prepared`)
      : asServiceError(error, deps.redact);
    if (failure.code === "internal")
      log.error({ err: error, worktree: id }, "the worktree could not be prepared");
    const patch = { status: "failed" as const, ended_at: now().toISOString(), error: failure.message };
    await records.update(id, ["preparing"], patch).catch((err: unknown) => {
      // The next start finds it `preparing` and tries again.
      log.error({ err, worktree: id }, "that the preparation failed could not be noted");
    });
    return failure;
  };

  /** Resolves to how it ended; null when that takes longer than a caller should wait. */
  const wait = async (id: string, ended: Promise<Ended>, context: RequestContext): Promise<Ended | null> => {
    const enough = AbortSignal.any([context.signal, AbortSignal.timeout(maxWait)]);
    for (;;) {
      context.progress?.(`preparing: ${inFlight.get(id)?.phase ?? "done"}`);
      const beat = new AbortController();
      const pause = delay(heartbeat, null, { signal: AbortSignal.any([enough, beat.signal]) });
      const result = await Promise.race([ended, pause.catch(() => null)]);
      beat.abort();
      if (result !== null || enough.aborted) return result;
    }
  };

  return {
    /** Resolves to the id of the new worktree, ready or, when that takes long, still being prepared. */
    prepare: async (
      input: { repo_url: string; base_ref: string },
      context: RequestContext,
    ): Promise<string> => {
      await deps.admit();
      const url = repos.parseUrl(input.repo_url);
      if (input.base_ref !== "") repos.checkRef(input.base_ref);
      if (inFlight.size >= settings.maxParallelJobs + settings.maxQueuedJobs) {
        throw new ServiceError(
          "queue_full",
          `${inFlight.size} worktrees are being prepared already; try again later`,
          {
            retryAfter: 30,
          },
        );
      }
      const record = newRecord(deps, { url, baseRef: input.base_ref });
      own.add(record.worktree_id);
      await records.create(record).catch((error: unknown) => {
        own.delete(record.worktree_id);
        throw error;
      });
      const result = await wait(record.worktree_id, begin(record), context);
      if (result?.error) throw result.error;
      return record.worktree_id;
    },

    /** At start: resumes preparations that an earlier start of this instance did not finish. */
    resume: async (): Promise<void> => {
      for (const record of await records.list()) {
        if (record.status !== "preparing" || record.pod_name !== settings.podName) continue;
        const { worktree_id: id } = record;
        if (own.has(id) || inFlight.has(id)) continue;
        await deps.endOrphans(id);
        if (record.attempt >= maxAttempts) {
          const error = `The service ended ${record.attempt} times while it prepared this worktree; prepare another if the service is stable`;
          await records.update(id, ["preparing"], { status: "failed", ended_at: now().toISOString(), error });
          continue;
        }
        const again = await records.update(id, ["preparing"], { attempt: record.attempt + 1 });
        if (again !== null) void begin(again);
      }
    },

    /** Stops the preparation of a worktree, if one is in flight, and waits for its end. */
    stop: async (id: string): Promise<void> => {
      const entry = inFlight.get(id);
      entry?.stop.abort();
      await entry?.ended;
    },

    /** Resolves when no preparation is in flight. */
    settled: async (): Promise<void> => {
      await Promise.allSettled([...inFlight.values()].map(({ ended }) => ended));
    },
  };
};

const newRecord = (
  { newId, now, repos, settings }: Dependencies,
  { url, baseRef }: { url: string; baseRef: string },
): WorktreeRecord => {
  const id = newId();
  return {
    worktree_id: id,
    repo_url: url,
    repo_key: repos.keyOf(url),
    base_ref: baseRef,
    branch: `service/wt-${id.slice(0, 8)}`,
    path: repos.worktreePath(id),
    status: "preparing",
    pod_name: settings.podName,
    attempt: 1,
    created_at: now().toISOString(),
    used_at: null,
    ended_at: null,
    removing: false,
    salvage_ref: null,
    error: null,
  };
};

/** The caller's mistakes are 400, temporary failures 503. */
const asServiceError = (error: unknown, redact: (text: string) => string): ServiceError => {
  if (error instanceof ServiceError) return error;
  if (!(error instanceof RepoError)) {
    return new ServiceError("internal", "The worktree could not be prepared; the service's log says more", {
      cause: error,
    });
  }
  const code: ErrorCode = error.retryable
    ? "repo_unavailable"
    : error.reason === "clone_failed"
      ? "clone_failed"
      : "worktree_failed";
  return new ServiceError(code, redact(error.message), { cause: error, retryAfter: 10 });
};
