import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { LockTimeoutError, lockFile } from "../lib/file-lock.ts";
import { RepoError } from "./repos.ts";
import { cacheDirectory, type Room } from "./room.ts";

type Locked = { key: string; url: string; reason: RepoError["reason"]; signal: AbortSignal };

/**
 * Runs an action while holding a repository's lock, which is one across all processes and hosts that share the cache.
 * The action gets the locked descriptor for the git processes that it starts: one that outlives a killed service keeps
 * the next service out until it is done.
 * @throws RepoError when the lock does not come free in time: it never goes ahead without it
 */
export const withRepositoryLock = async <Value>(
  room: Room,
  { key, url, reason, signal }: Locked,
  action: (lockFd: number) => Promise<Value>,
): Promise<Value> => {
  const directory = cacheDirectory(room, key);
  const timeoutSeconds = room.settings.repoLockTimeout;
  await mkdir(directory, { recursive: true, mode: 0o700 });
  try {
    await using lock = await lockFile({ path: join(directory, ".lock"), timeoutSeconds, signal });
    return await action(lock.fd);
  } catch (error) {
    if (!(error instanceof LockTimeoutError)) throw error;
    const message = `The cached clone of ${url} was in use by others for ${timeoutSeconds} s; try again, or raise SERVICE_REPO_LOCK_TIMEOUT.`;
    throw new RepoError(reason, message, { cause: error, retryable: true });
  }
};
