import { createRequire } from "node:module";
import { constants, open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { createKeyedMutex } from "./keyed-mutex.ts";
import { orAborted, poll } from "./wait.ts";

/** An exclusive lock, until `release`, or until the last process that inherited `fd` has ended. */
export type FileLock = {
  /** For a child's stdio: a child that outlives a killed service then has the lock until it ends. */
  fd: number;
  release: () => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
};

export type LockRequest = { path: string; timeoutSeconds: number; signal: AbortSignal };

/** The lock was not released in time. */
export class LockTimeoutError extends Error {
  override name = "LockTimeoutError";
}

/**
 * Locks a file against all processes and hosts that lock it: an open-file-description lock, which the kernel frees when its
 * holders end, however they end. Makes the file when it is missing, and never removes it. Callers within this process get
 * the lock in order.
 * @throws LockTimeoutError, or the signal's reason
 */
export const lockFile = async ({ path, timeoutSeconds, signal }: LockRequest): Promise<FileLock> => {
  signal.throwIfAborted();
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(), timeoutSeconds * 1000);
  const stop = AbortSignal.any([signal, limit.signal]);
  try {
    const leave = await queueUp(path, stop);
    return await openAndLock(path, stop).then(
      (file) => lockOf(file, leave),
      (error: unknown) => {
        leave();
        throw error;
      },
    );
  } catch (error) {
    signal.throwIfAborted();
    if (!limit.signal.aborted) throw error;
    throw new LockTimeoutError(`The lock ${path} was not free within ${timeoutSeconds} s.`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
};

/** Whether locks work on the file system of this path: a second lock of the file must be refused. */
export const locksWork = async (path: string): Promise<boolean> => {
  await using first = await open(path, "a", 0o600);
  await using second = await open(path, "a", 0o600);
  return binding().tryLock(first.fd) && !binding().tryLock(second.fd);
};

const lockOf = (file: FileHandle, leave: () => void): FileLock => {
  let closing: Promise<void> | undefined;
  // Closing, not unlocking: unlocking would release the lock of a child that still has the descriptor.
  const release = (): Promise<void> => (closing ??= file.close().finally(leave));
  return { fd: file.fd, release, [Symbol.asyncDispose]: release };
};

const { O_APPEND, O_CREAT, O_NOFOLLOW, O_WRONLY } = constants;

const openAndLock = async (path: string, stop: AbortSignal): Promise<FileHandle> => {
  // Not through a link: the lock's directory may be another user's.
  const file = await open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, 0o600);
  try {
    await acquire(file.fd, stop);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
};

/** Polls: a waiting call of the native module would block one of Node's few file-system threads. A free lock is never late. */
const acquire = async (fd: number, signal: AbortSignal): Promise<void> => {
  if (!binding().tryLock(fd))
    await poll(() => binding().tryLock(fd) || null, { first: 1, longest: 50, signal });
};

const waiting = createKeyedMutex();

/** Resolves when the callers before have released the path, to the function that lets the next one in. */
const queueUp = async (path: string, stop: AbortSignal): Promise<() => void> => {
  const entered = Promise.withResolvers<void>();
  const left = Promise.withResolvers<void>();
  void waiting.runExclusive(path, () => {
    entered.resolve();
    return left.promise;
  });
  try {
    await orAborted(entered.promise, stop);
  } catch (error) {
    left.resolve();
    throw error;
  }
  return left.resolve;
};

type Binding = { tryLock: (fd: number) => boolean };

let loaded: Binding | undefined;

const binding = (): Binding => (loaded ??= fromPackage() ?? fromBundle(import.meta.dirname));

const require = createRequire(import.meta.url);

const fromPackage = (): Binding | null => {
  try {
    const native: Binding = require("fs-native-extensions");
    return { tryLock: (fd) => native.tryLock(fd) };
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "MODULE_NOT_FOUND") return null;
    throw error;
  }
};

/** The published bundle has no packages; the native files are in `prebuilds/` beside it. */
export const fromBundle = (directory: string): Binding => {
  const native: {
    tryLock: (fd: number, offset: number, length: number, exclusive: boolean) => void;
  } = require(
    join(directory, "prebuilds", `${process.platform}-${process.arch}`, "fs-native-extensions.node"),
  );
  return {
    tryLock: (fd) => {
      try {
        native.tryLock(fd, 0, 0, true);
        return true;
      } catch (error) {
        if (error instanceof Error && "code" in error && error.code === "EAGAIN") return false;
        throw error;
      }
    },
  };
};
