import { ftruncateSync, writeSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { LockTimeoutError, lockFile } from "../lib/file-lock.ts";
import { poll } from "../lib/wait.ts";
import { RepoError } from "./repos.ts";
import { cacheDirectory, noRepository, type Lease, type GitContext } from "./git-context.ts";

type Locked = { key: string | null; url: string; reason: RepoError["reason"]; signal: AbortSignal };

/** What an action may do while it holds the lock. */
export type Held = {
  /** The locked descriptor, for the git processes that are started: one that outlives a killed service keeps the next out until it is done. */
  lockFd: number;
  /** The caller's, aborted also when the lock could not be kept. */
  signal: AbortSignal;
};

/**
 * Runs an action while holding a repository's lock, which is one across all processes and hosts that share the cache: a
 * lock of the file system and, with a key-value store, a lease in that too, for file systems whose locks do not reach
 * other hosts.
 * @throws RepoError when the lock does not come free in time, or could not be kept: it never goes ahead without it
 */
export const withRepositoryLock = async <Value>(
  context: GitContext,
  { key, url, reason, signal }: Locked,
  action: (held: Held) => Promise<Value>,
): Promise<Value> => {
  const directory = cacheDirectory(context, key);
  const timeoutSeconds = context.settings.repoLockTimeout;
  const limit = performance.now() + timeoutSeconds * 1000;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const retryable = (message: string, cause: unknown, again = false): RepoError =>
    new RepoError(reason, message, { cause, retryable: true, again });
  const path = join(directory, ".lock");
  const stopped = new AbortController();
  let stoppedCount = 0;
  const checkHolder = async (): Promise<void> => {
    const holder = await stoppedHolder(path);
    stoppedCount = holder === null ? 0 : stoppedCount + 1;
    if (stoppedCount === stoppedFor) stopped.abort(holder);
  };
  const watch = setInterval(() => void checkHolder(), 1000);
  const busy = (cause: unknown): RepoError =>
    retryable(
      `The cached clone of ${url} was in use by others for ${timeoutSeconds} s; try again, or raise SERVICE_REPO_LOCK_TIMEOUT.`,
      cause,
    );
  const waiting = AbortSignal.any([signal, stopped.signal]);
  await using lock = await lockFile({ path, timeoutSeconds, signal: waiting })
    .catch((error: unknown) => {
      if (stopped.signal.aborted && !signal.aborted)
        throw retryable(
          `The cached clone of ${url} is held by ${stopped.signal.reason}, which is stopped: let it go on (SIGCONT) or end it, and try again.`,
          error,
          true,
        );
      throw error instanceof LockTimeoutError ? busy(error) : error;
    })
    .finally(() => clearInterval(watch));
  nameHolder(lock.fd, context.settings.podName);
  if (context.takeLease === undefined) return await action({ lockFd: lock.fd, signal });
  const taken = await takeLeaseInTime(context.takeLease, {
    name: `repo ${key ?? noRepository}`,
    limit,
    signal,
  });
  if (taken instanceof StoreUnreachable) {
    const message = `The cached clone of ${url} cannot be locked while the key-value store is away; try again when it is back.`;
    throw retryable(message, taken.cause, true);
  }
  if (taken === null) throw busy(null);
  try {
    taken.lost.throwIfAborted();
    return await action({ lockFd: lock.fd, signal: AbortSignal.any([signal, taken.lost]) });
  } catch (error) {
    if (!taken.lost.aborted || signal.aborted) throw error;
    throw retryable(
      `The lock of the cached clone of ${url} could not be kept: the key-value store was away. Try again.`,
      error,
      true,
    );
  } finally {
    await taken.release();
  }
};

/** Looks, one each second, after which a holder that was stopped all the time is not waited for: by then others have taken over its jobs. */
const stoppedFor = 20;

const nameHolder = (lockFd: number, podName: string): void => {
  try {
    ftruncateSync(lockFd);
    writeSync(lockFd, `${process.pid} ${hostname()} ${podName}\n`);
  } catch {
    // On a full disk the lock holds without a name: what it is taken for may free room.
  }
};

/** Who has written itself into the lock file, when it is a process of this machine that was stopped (SIGSTOP); else null. */
const stoppedHolder = async (path: string): Promise<string | null> => {
  const [pid, host, podName] = (await readFile(path, "utf8").catch(() => "")).trim().split(" ");
  const stat = host !== hostname() ? "" : await readFile(`/proc/${pid}/stat`, "latin1").catch(() => "");
  return /\) T [^)]*$/.test(stat) ? `the instance ${podName} (process ${pid})` : null;
};

/** The store could not be asked. */
class StoreUnreachable extends Error {
  override name = "Away";
}

/** Null: others held it all the time. A store that is away for a moment only is waited for. */
const takeLeaseInTime = async (
  take: NonNullable<GitContext["takeLease"]>,
  { name, limit, signal }: { name: string; limit: number; signal: AbortSignal },
): Promise<Lease | StoreUnreachable | null> => {
  let away: StoreUnreachable | null = null;
  const ask = async (): Promise<Lease | null> => {
    away = null;
    return await take(name, signal).catch((cause: unknown) => {
      away = new StoreUnreachable("the key-value store is away", { cause });
      return null;
    });
  };
  return (await poll(ask, { first: 10, longest: 500, signal, deadline: limit })) ?? away;
};
