import { constants } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

let count = 0;

/** Suffix of files that a crash can leave behind; the owner of the directory may delete them at its start. */
export const temporarySuffix = ".tmp";

/**
 * Replaces a file: a reader, also after a crash, sees the old or the new content, never a part. Writes a temporary file, syncs
 * it, renames it and syncs the directory. Durable when it resolves. A failed write leaves no temporary file.
 */
export const writeFileAtomic = async (path: string, data: string | Uint8Array, mode = 0o600) => {
  const temporary = join(dirname(path), `.${basename(path)}.${process.pid}.${++count}${temporarySuffix}`);
  try {
    const file = await open(temporary, constants.O_CREAT | constants.O_EXCL | constants.O_WRONLY, mode);
    try {
      await file.writeFile(data);
      await file.sync();
    } finally {
      await file.close();
    }
    await rename(temporary, path);
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw error;
  }
  await syncDirectory(dirname(path));
};

/** Syncs by directory: those that have not started, which later callers share, and those in flight. */
const waiting = new Map<string, Promise<void>>();
const running = new Map<string, Promise<void>>();

/** Makes creations, renames and deletions in a directory durable. Concurrent calls share one sync. */
export const syncDirectory = (path: string): Promise<void> => {
  const next = waiting.get(path) ?? syncAfter(path, running.get(path));
  waiting.set(path, next);
  return next;
};

const syncAfter = async (path: string, earlier: Promise<void> | undefined): Promise<void> => {
  await earlier?.catch(() => undefined);
  await Promise.resolve();
  waiting.delete(path);
  const sync = syncNow(path);
  running.set(path, sync);
  try {
    await sync;
  } finally {
    if (running.get(path) === sync) running.delete(path);
  }
};

const syncNow = async (path: string): Promise<void> => {
  const directory = await open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
};
