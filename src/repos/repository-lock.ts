import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { LockTimeoutError, lockFile } from "../lib/file-lock.ts";
import { poll } from "../lib/wait.ts";
import { cacheDirectory, noRepository, type GitContext, type LockedContext } from "./git-context.ts";
import { RepoError } from "./repos.ts";

type LockRequest = { key: string | null; url: string; reason: RepoError["reason"] };

/**
 * Runs an action with a repository's lock: a file lock and, with a key-value store, a lease, because the locks of some file
 * systems do not reach other hosts. @throws RepoError when it is not free in time, or is lost
 */
export const withRepositoryLock = async <Value>(
  context: GitContext,
  { key, url, reason }: LockRequest,
  action: (locked: LockedContext) => Promise<Value>,
): Promise<Value> => {
  const { takeLease, signal, settings } = context;
  const { repoLockTimeout: timeoutSeconds } = settings;
  const directory = cacheDirectory(context, key);
  const deadline = performance.now() + timeoutSeconds * 1000;
  const failure = (message: string, cause: unknown, again = false): RepoError =>
    new RepoError(reason, `The cached clone of ${url} ${message}`, { cause, retryable: true, again });
  const busy = (cause: unknown): RepoError =>
    failure(
      `was in use by others for ${timeoutSeconds} s; try again, or raise SERVICE_REPO_LOCK_TIMEOUT.`,
      cause,
    );
  await mkdir(directory, { recursive: true, mode: 0o700 });
  await using lock = await lockFile({ path: join(directory, ".lock"), timeoutSeconds, signal }).catch(
    (error: unknown) => {
      throw error instanceof LockTimeoutError ? busy(error) : error;
    },
  );
  const { fd: lockFd } = lock;
  if (takeLease === undefined)
    return await action({ ...context, lockFd, lost: new AbortController().signal });
  /** Why the store could not be asked last. It may be unreachable for a moment. */
  let unreachable: RepoError | undefined;
  const take = async () => {
    unreachable = undefined;
    return takeLease(`repo ${key ?? noRepository}`, signal).catch((cause: unknown) => {
      const message = "cannot be locked while the key-value store is unreachable; try again when it is back.";
      unreachable = failure(message, cause, true);
      return null;
    });
  };
  const lease = await poll(take, { first: 10, longest: 500, signal, deadline });
  if (lease === null) throw unreachable ?? busy(null);
  const { lost } = lease;
  try {
    lost.throwIfAborted();
    return await action({ ...context, lockFd, lost, signal: AbortSignal.any([signal, lost]) });
  } catch (error) {
    if (!lost.aborted || signal.aborted) throw error;
    throw failure("lost its lock: the key-value store was unreachable. Try again.", error, true);
  } finally {
    await lease.release();
  }
};
