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

/** Makes creations, renames and deletions in a directory durable. */
export const syncDirectory = async (path: string): Promise<void> => {
  const directory = await open(path, constants.O_RDONLY);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
};
