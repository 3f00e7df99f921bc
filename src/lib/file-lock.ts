import { createRequire } from "node:module";
import { open, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { orAborted, poll } from "./wait.ts";

/** An exclusive lock held until `release`, or until the last process that was given `fd` is gone. */
export type FileLock = {
  /** Hand it to a child's stdio: a child that outlives a killed service then keeps the lock for as long as it lives. */
  fd: number;
  release: () => Promise<void>;
  [Symbol.asyncDispose]: () => Promise<void>;
};

export type LockRequest = { path: string; timeoutSeconds: number; signal: AbortSignal };

/** Nobody gave the lock up within the time. */
export class LockTimeoutError extends Error {
  override name = "LockTimeoutError";
}

/**
 * Locks a file, which is made when missing and never removed, against all processes and hosts that do the same: an
 * open-file-description lock, which the kernel frees when its holders end, however they end. Callers within this process
 * are served first come, first served.
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
      (file) => held(file, leave),
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

/** Whether locks work on the file system of this path: a second opening of the file must be refused. */
export const locksWork = async (path: string): Promise<boolean> => {
  await using first = await open(path, "a", 0o600);
  await using second = await open(path, "a", 0o600);
  return binding().tryLock(first.fd) && !binding().tryLock(second.fd);
};

const held = (file: FileHandle, leave: () => void): FileLock => {
  let closing: Promise<void> | undefined;
  // Closing, not unlocking: an unlock would also take the lock from a child that still runs with the descriptor.
  const release = (): Promise<void> => (closing ??= file.close().finally(leave));
  return { fd: file.fd, release, [Symbol.asyncDispose]: release };
};

const openAndLock = async (path: string, stop: AbortSignal): Promise<FileHandle> => {
  const file = await open(path, "a", 0o600);
  try {
    await acquire(file.fd, stop);
    return file;
  } catch (error) {
    await file.close();
    throw error;
  }
};

/** Polls, because a waiting call of the native module would block one of Node's few file-system threads. */
const acquire = async (fd: number, signal: AbortSignal): Promise<void> => {
  await poll(() => binding().tryLock(fd) || null, { first: 1, longest: 50, signal });
};

/** For each path the end of the line of callers in this process. */
const lines = new Map<string, Promise<void>>();

/** Resolves when it is the caller's turn, to the function that lets the next one in. */
const queueUp = async (path: string, stop: AbortSignal): Promise<() => void> => {
  const before = lines.get(path);
  const { promise: done, resolve } = Promise.withResolvers<void>();
  const mine = Promise.all([before, done]).then(() => undefined);
  lines.set(path, mine);
  void mine.then(() => {
    if (lines.get(path) === mine) lines.delete(path);
  });
  try {
    if (before !== undefined) await orAborted(before, stop);
  } catch (error) {
    resolve();
    throw error;
  }
  return resolve;
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

/** In the published bundle the package is not there; its native files are shipped in `prebuilds/` beside the bundle. */
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
