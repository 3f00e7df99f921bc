import { constants } from "node:fs";
import { open, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

let count = 0;

/** Suffix of files that a crash can leave behind; whoever owns the directory may delete them at start. */
export const temporarySuffix = ".tmp";

/**
 * Replaces a file so that a reader, also one after a crash, sees the old or the new content and never a part: written
 * beside, synced, renamed, directory synced. Durable when it resolves. A failed write leaves no temporary file.
 */
export const writeFileAtomic = async (
  path: string,
  data: string | Uint8Array,
  mode = 0o600,
): Promise<void> => {
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

/** Directories that are to be synced, each with the sync that has not begun yet: who comes before it begins shares it. */
const waiting = new Map<string, Promise<void>>();
const running = new Map<string, Promise<void>>();

/** Makes creations, renames and deletions in a directory durable; those of many files at once with one sync. */
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
