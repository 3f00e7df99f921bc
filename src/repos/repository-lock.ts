import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { LockTimeoutError, lockFile } from "../lib/file-lock.ts";
import { poll } from "../lib/wait.ts";
import { RepoError } from "./repos.ts";
import { cacheDirectory, noRepository, type Lease, type GitContext } from "./git-context.ts";

type LockRequest = { key: string | null; url: string; reason: RepoError["reason"]; signal: AbortSignal };

/** What an action may use while it has the lock. */
export type LockHeld = {
  /** The locked descriptor, for git processes: one that outlives a killed service still blocks the next holder. */
  lockFd: number;
  /** The caller's signal, also aborted when the lock is lost. */
  signal: AbortSignal;
  /** Aborted when another instance may have the lock. */
  lost: AbortSignal;
};

/**
 * Runs an action with a repository's lock, which is shared by all processes and hosts that use the cache: a file lock and,
 * with a key-value store, a lease, because the locks of some file systems do not reach other hosts.
 * @throws RepoError when the lock is not free in time, or is lost: the action never runs without it
 */
export const withRepositoryLock = async <Value>(
  context: GitContext,
  { key, url, reason, signal }: LockRequest,
  action: (held: LockHeld) => Promise<Value>,
): Promise<Value> => {
  const directory = cacheDirectory(context, key);
  const timeoutSeconds = context.settings.repoLockTimeout;
  const deadline = performance.now() + timeoutSeconds * 1000;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const failure = (message: string, cause: unknown, again = false): RepoError =>
    new RepoError(reason, `The cached clone of ${url} ${message}`, { cause, retryable: true, again });
  const busy = (cause: unknown): RepoError =>
    failure(
      `was in use by others for ${timeoutSeconds} s; try again, or raise SERVICE_REPO_LOCK_TIMEOUT.`,
      cause,
    );
  await using lock = await lockFile({ path: join(directory, ".lock"), timeoutSeconds, signal }).catch(
    (error: unknown) => {
      throw error instanceof LockTimeoutError ? busy(error) : error;
    },
  );
  if (context.takeLease === undefined)
    return await action({ lockFd: lock.fd, signal, lost: new AbortController().signal });
  const name = `repo ${key ?? noRepository}`;
  const lease = await takeLeaseInTime(context.takeLease, { name, deadline, signal });
  if (lease instanceof StoreUnreachable)
    throw failure(
      "cannot be locked while the key-value store is unreachable; try again when it is back.",
      lease.cause,
      true,
    );
  if (lease === null) throw busy(null);
  try {
    lease.lost.throwIfAborted();
    const { lost } = lease;
    return await action({ lockFd: lock.fd, signal: AbortSignal.any([signal, lost]), lost });
  } catch (error) {
    if (!lease.lost.aborted || signal.aborted) throw error;
    throw failure("lost its lock: the key-value store was unreachable. Try again.", error, true);
  } finally {
    await lease.release();
  }
};

class StoreUnreachable extends Error {
  override name = "StoreUnreachable";
}

/** Waits for the lease, also while the store is unreachable for a moment. Null: others had it until the deadline. */
const takeLeaseInTime = async (
  take: NonNullable<GitContext["takeLease"]>,
  { name, deadline, signal }: { name: string; deadline: number; signal: AbortSignal },
): Promise<Lease | StoreUnreachable | null> => {
  let unreachable: StoreUnreachable | null = null;
  const tryTake = async (): Promise<Lease | null> => {
    unreachable = null;
    return await take(name, signal).catch((cause: unknown) => {
      unreachable = new StoreUnreachable("the key-value store is unreachable", { cause });
      return null;
    });
  };
  return (await poll(tryTake, { first: 10, longest: 500, signal, deadline })) ?? unreachable;
};
