import { createHash } from "node:crypto";
import { constants, fsyncSync, ftruncateSync, openSync, writeFileSync, writeSync } from "node:fs";
import { mkdir, readFile, realpath } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { z } from "zod";
import type { Settings } from "../config/variables.ts";
import { lockFile, LockTimeoutError, type FileLock } from "../lib/file-lock.ts";

/** What the holder says about itself; `url` is null when it serves a client on its stdin, and others on its Unix socket. */
const Holder = z.object({ url: z.string().nullable(), pid: z.int() });
type Holder = z.infer<typeof Holder>;

/** Another service holds the directory. */
export class InstanceHeldError extends Error {
  override name = "InstanceHeldError";
}

/**
 * Locks a directory: two services would overwrite each other's records. The kernel releases the lock when the process
 * ends, however it ends.
 * @throws InstanceHeldError when another service holds it; Error that names the directory when it cannot be used
 */
const lockDirectory = async (directory: string, signal: AbortSignal, timeoutSeconds = 1) => {
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    return await lockFile({ path: lockPath(directory), timeoutSeconds, signal });
  } catch (cause) {
    signal.throwIfAborted();
    if (cause instanceof LockTimeoutError)
      throw new InstanceHeldError(
        `${described(await readHolder(directory))} uses ${directory}; stop it, or give this one directories of its own: SERVICE_JOBS_DIR and SERVICE_WORKTREE_ROOT`,
        { cause },
      );
    throw new Error(
      `The job records cannot be kept in ${directory} (${cause instanceof Error ? cause.message : String(cause)}); make it a directory that the service may write to, or name another with SERVICE_JOBS_DIR`,
      { cause },
    );
  }
};

/**
 * Locks the directory of job files, and that of worktrees: two services would remove each other's as orphans. Where the
 * latter cannot be locked, each job reports why no worktree can be made. `publish`: the address for whoever finds it held.
 */
export const lockDirectories = async (directory: string, worktreeRoot: string, signal: AbortSignal) => {
  await using opened = new AsyncDisposableStack();
  const state = opened.use(await lockDirectory(directory, signal));
  // An earlier holder's address is no longer valid. Only a start removes it: who looks for a holder writes nothing.
  ftruncateSync(state.fd);
  const worktrees = await lockDirectory(worktreeRoot, signal).catch((error: unknown) => {
    if (!(error instanceof InstanceHeldError)) return null;
    // Not an `InstanceHeldError`: the holder has other jobs, so it cannot answer for this process.
    throw new Error(error.message, { cause: error });
  });
  if (worktrees !== null) opened.use(worktrees);
  requireRoom(state, directory, "SERVICE_JOBS_DIR");
  if (worktrees !== null) requireRoom(worktrees, worktreeRoot, "SERVICE_WORKTREE_ROOT");
  const locks = opened.move();
  return {
    publish: (url: string | null): void => {
      for (const lock of [state, worktrees])
        if (lock !== null) writeSync(lock.fd, JSON.stringify({ url, pid: process.pid }));
    },
    release: (): Promise<void> => locks.disposeAsync(),
  };
};

/** Room for a record; what stays of it is room for the address. On a full disk, empty files can still be made. */
const requireRoom = ({ fd }: FileLock, directory: string, variable: string): void => {
  try {
    ftruncateSync(fd);
    writeFileSync(fd, " ".repeat(65_536));
    fsyncSync(fd);
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause);
    const wayOut = `free some space there, or name another directory with ${variable}`;
    throw new Error(`Nothing can be written to ${directory} (${why}): ${wayOut}`, { cause });
  } finally {
    ftruncateSync(fd, 1);
  }
};

/** Seconds that a service may take from locking its directory to publishing its address. */
const longestStart = 20;

/**
 * The holder of the directory of job files; null: none. Waits for a holder that is starting. Only the lock proves that
 * there is a holder; the file only has its address.
 * @throws Error when a holder publishes no address, or the directory cannot be used
 */
export const holderOf = async (jobsDir: string, signal: AbortSignal): Promise<Holder | null> => {
  const started = performance.now();
  for (;;) {
    try {
      const lock = await lockDirectory(jobsDir, signal, 0.05);
      await lock.release();
      return null;
    } catch (error) {
      const isLate = performance.now() > started + longestStart * 1000;
      if (!(error instanceof InstanceHeldError) || isLate) throw error;
    }
    const said = await readHolder(jobsDir);
    if (said !== null) return said;
    await delay(50, undefined, { signal });
  }
};

/** The socket of this directory's service, through a descriptor that stays open: the path may have 107 bytes at most. */
export const socketPath = (directory: string): string =>
  join(`/proc/self/fd/${openSync(directory, constants.O_RDONLY | constants.O_DIRECTORY)}`, "service.sock");

/** A service that listens on all addresses is reached on loopback by programs of this machine. */
export const onLoopback = (url: string): string => url.replace(/\/\/(0\.0\.0\.0|\[::\]):/, "//127.0.0.1:");

/** The file that a service of this directory holds locked. */
const lockPath = (jobsDir: string): string => join(jobsDir, ".lock");

/** Null: it is being written. */
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

/** Directory of this instance alone, for its lock and spool: with a shared store, that of job files may be shared. */
export const stateDirectory = ({ jobsDir, kvUrl, podName }: Settings): string =>
  kvUrl === null ? jobsDir : join(jobsDir, "instances", podName);

/** Text that marks the processes of the instance with this directory, unique on this machine. */
export const instanceMark = async (directory: string): Promise<string> =>
  createHash("sha256")
    .update(await realpath(directory))
    .digest("hex")
    .slice(0, 16);
