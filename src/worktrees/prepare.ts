import pLimit from "p-limit";
import { ServiceError, type ErrorCode } from "../contract/errors.ts";
import type { RequestContext } from "../contract/operation.ts";
import { orAborted } from "../lib/wait.ts";
import { RepoError } from "../repos/repos.ts";
import type { WorktreeRecord } from "../store/worktree-store.ts";
import type { Dependencies } from "./dependencies.ts";

/** Longest wait of a caller, ms: below the time limit of MCP clients. */
const maxWait = 45_000;

/** Interval of progress messages to a waiting caller, ms. */
const heartbeat = 5000;

/** A preparation during which the service ended this often is not retried: it may be the cause. */
const maxAttempts = 3;

/** Makes worktrees ahead of their jobs. A preparation continues when its caller leaves, and after a restart. */
export const createPreparing = (deps: Dependencies) => {
  const { records, repos, settings, now, log } = deps;
  const limit = pLimit(settings.maxParallelJobs);
  const inFlight = new Map<string, { stop: AbortController; phase: string; ended: Promise<void> }>();

  /** Registered before its record is stored: `resume` must skip it. */
  const begin = (record: WorktreeRecord, stored: Promise<unknown>): Promise<void> => {
    const { worktree_id: id } = record;
    const stop = new AbortController();
    const ended = stored
      .then(() => limit(() => run(record, AbortSignal.any([stop.signal, deps.closing]))))
      .finally(() => inFlight.delete(id));
    ended.catch(() => undefined);
    inFlight.set(id, { stop, phase: "waiting for its turn", ended });
    return ended;
  };

  /** @throws ServiceError why it failed, which its record says too */
  const run = async (record: WorktreeRecord, signal: AbortSignal): Promise<void> => {
    const { worktree_id: id, repo_url: url, branch, base_ref: baseRef } = record;
    const enter = (phase: string): void => void Object.assign(inFlight.get(id) ?? {}, { phase });
    try {
      signal.throwIfAborted();
      enter("fetching the repository");
      const repo = await repos.fetch({ url, jobId: id, signal });
      enter("checking out");
      const made = await repos.addWorktree({ repo, worktreeId: id, jobId: id, branch, baseRef, signal });
      const ready = { status: "ready" as const, base_ref: made.baseRef, used_at: now().toISOString() };
      await records.update(id, ["preparing"], ready);
      log.info({ worktree: id }, "worktree prepared");
    } catch (error) {
      throw await failed(id, error, signal);
    }
  };

  const failed = async (id: string, error: unknown, signal: AbortSignal): Promise<ServiceError> => {
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
    await noteFailure(id, failure.message).catch((err: unknown) => {
      // The next start finds it `preparing` and tries again.
      log.error({ err, worktree: id }, "that the preparation failed could not be noted");
    });
    return failure;
  };

  const noteFailure = (id: string, error: string) =>
    records.update(id, ["preparing"], { status: "failed", ended_at: now().toISOString(), error });

  /** Until it has ended, or as long as a caller should wait. Tells its phase meanwhile. */
  const wait = async (id: string, ended: Promise<void>, { signal, progress }: RequestContext) => {
    const enough = AbortSignal.any([signal, AbortSignal.timeout(maxWait)]);
    const tell = (): void => progress?.(`preparing: ${inFlight.get(id)?.phase ?? "done"}`);
    tell();
    const beat = setInterval(tell, heartbeat);
    await orAborted(ended, enough)
      .catch((error: unknown) => {
        if (error !== enough.reason) throw error;
      })
      .finally(() => clearInterval(beat));
  };

  return {
    /** Resolves to the id of the new worktree, ready or, when that takes long, still being prepared. */
    prepare: async (input: { repo_url: string; base_ref: string }, context: RequestContext) => {
      await deps.admit();
      const url = repos.parseUrl(input.repo_url);
      if (input.base_ref !== "") repos.checkRef(input.base_ref);
      const waiting = inFlight.size;
      if (waiting >= settings.maxParallelJobs + settings.maxQueuedJobs) {
        const message = `${waiting} worktrees are being prepared already; try again later`;
        throw new ServiceError("queue_full", message, { retryAfter: 30 });
      }
      const record = newRecord(deps, { url, baseRef: input.base_ref });
      await wait(record.worktree_id, begin(record, records.create(record)), context);
      return record.worktree_id;
    },

    /** At start: resumes preparations that an earlier start of this instance did not finish. */
    resume: async (): Promise<void> => {
      for (const record of await records.list()) {
        const { worktree_id: id, attempt } = record;
        if (record.status !== "preparing" || record.pod_name !== settings.podName || inFlight.has(id))
          continue;
        await deps.endOrphans(id);
        if (attempt >= maxAttempts) {
          const error = `The service ended ${attempt} times while it prepared this worktree; prepare another if the service is stable`;
          await noteFailure(id, error);
          continue;
        }
        const again = await records.update(id, ["preparing"], { attempt: attempt + 1 });
        if (again !== null) void begin(again, Promise.resolve());
      }
    },

    /** Stops the preparation of a worktree, if one is in flight, and waits for its end. */
    stop: async (id: string): Promise<void> => {
      const entry = inFlight.get(id);
      entry?.stop.abort();
      await entry?.ended.catch(() => undefined);
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
