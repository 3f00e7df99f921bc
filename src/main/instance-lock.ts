import { ftruncateSync, writeSync } from "node:fs";
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import { lockFile, LockTimeoutError, type FileLock } from "../lib/file-lock.ts";

/** What the holder says about itself; `url` is null when it can only be asked on its stdin. */
const Holder = z.object({ url: z.string().nullable(), pid: z.int() });
export type Holder = z.infer<typeof Holder>;

export type InstanceLock = FileLock & {
  /** Says where the holder can be asked, to those who find the lock held. */
  tell: (url: string | null) => void;
};

/** Another service holds the directory. */
export class InstanceHeldError extends Error {
  override name = "InstanceHeldError";
}

/**
 * One service per directory of job files: two would overwrite each other's records. The kernel gives the lock back
 * when the process is gone, however it went.
 * @throws InstanceHeldError when another service holds it; Error that names the directory when it cannot be used
 */
const lockInstance = async (
  jobsDir: string,
  signal: AbortSignal,
  timeoutSeconds = 1,
  variable = "SERVICE_JOBS_DIR",
): Promise<InstanceLock> => {
  try {
    await mkdir(jobsDir, { recursive: true, mode: 0o700 });
    const lock = await lockFile({ path: lockPath(jobsDir), timeoutSeconds, signal });
    // What a holder before has said about itself holds no longer.
    ftruncateSync(lock.fd);
    return { ...lock, tell: (url) => void writeSync(lock.fd, JSON.stringify({ url, pid: process.pid })) };
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof LockTimeoutError) {
      throw new InstanceHeldError(
        `${described(await readHolder(jobsDir))} uses ${jobsDir}; stop it, or give this one a directory of its own with ${variable}`,
        { cause },
      );
    }
    throw new Error(
      `The job records cannot be kept in ${jobsDir} (${cause instanceof Error ? cause.message : String(cause)}); make it a directory that the service may write to, or name another with SERVICE_JOBS_DIR`,
      { cause },
    );
  }
};

/**
 * One service per directory of worktrees as well: two would remove each other's as orphans. Where it cannot be locked each
 * job tells why no worktree can be made.
 */
export const lockDirectories = async (
  directory: string,
  worktreeRoot: string,
  signal: AbortSignal,
): Promise<InstanceLock> => {
  const state = await lockInstance(directory, signal);
  const worktrees = await lockInstance(worktreeRoot, signal, 1, "SERVICE_WORKTREE_ROOT").catch(
    async (error: unknown) => {
      if (!(error instanceof InstanceHeldError)) return null;
      await state.release();
      // Not as an `InstanceHeldError`: the holder has other jobs, and a client cannot be passed on to it.
      throw new Error(error.message, { cause: error });
    },
  );
  return {
    ...state,
    tell: (url) => [state, worktrees].forEach((lock) => lock?.tell(url)),
    release: async () => {
      await worktrees?.release();
      await state.release();
    },
  };
};

/** Seconds that a service may take from locking its directory to saying where it can be asked. */
const longestStart = 20;

/** Seconds that one is waited for which serves another client: a client that starts again starts before the old one has ended. */
const longestEnd = 5;

/**
 * Who holds the directory of job files; null: nobody. Waits for a holder that is just starting, and a little for one that
 * may be ending. Only the lock tells whether there is one; what stands in the file is its word.
 * @param onWait told once, when one that may be ending is waited for
 * @throws Error when a holder says nothing about itself, or the directory cannot be used
 */
export const holderOf = async (
  jobsDir: string,
  signal: AbortSignal,
  onWait: (holder: Holder, seconds: number) => void,
): Promise<Holder | null> => {
  let told = false;
  const started = performance.now();
  const within = (seconds: number): boolean => performance.now() < started + seconds * 1000;
  for (;;) {
    try {
      const lock = await lockInstance(jobsDir, signal, 0.05);
      await lock.release();
      return null;
    } catch (error) {
      if (!(error instanceof InstanceHeldError) || !within(longestStart)) throw error;
    }
    const said = await readHolder(jobsDir);
    if (said !== null && (said.url !== null || !within(longestEnd))) return said;
    if (said !== null && !told) {
      told = true;
      onWait(said, longestEnd);
    }
    await delay(50, undefined, { signal });
  }
};

const lockPath = (jobsDir: string): string => join(jobsDir, ".lock");

/** Null: it is just being written, or was by an older version. */
const readHolder = async (jobsDir: string): Promise<Holder | null> => {
  try {
    return Holder.parse(JSON.parse(await readFile(lockPath(jobsDir), "utf8")));
  } catch {
    return null;
  }
};

const described = (holder: Holder | null): string => {
  if (holder === null) return "Another service";
  if (holder.url === null) return `Process ${holder.pid}, which serves a client on its standard input,`;
  return `The service at ${holder.url} (process ${holder.pid})`;
};
