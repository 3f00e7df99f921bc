import { lstat, opendir } from "node:fs/promises";
import type { Dirent, Stats } from "node:fs";

type DiskUsage = {
  /** Names of directories that do not count, at any depth. */
  exclude: readonly string[];
  signal: AbortSignal;
};

/** How many entries of a directory are inspected at once. */
const batchSize = 64;

/**
 * Bytes that a tree takes on disk: allocated blocks, a file with several names counted once. Links are not followed. Files
 * that are unreadable or deleted meanwhile do not count; a missing tree has 0.
 */
export const diskUsage = async (root: string, { exclude, signal }: DiskUsage): Promise<number> => {
  // Names need not be UTF-8: each character of a path is one byte.
  const excluded = new Set(exclude.map(asLatin1));
  const seen = new Set<string>();
  const found = await lstat(root).catch(() => null);
  if (found === null) return 0;
  let bytes = allocated(found, seen);
  const pending = found.isDirectory() ? [asLatin1(root)] : [];
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    for await (const entries of inBatches(directory)) {
      signal.throwIfAborted();
      const paths = entries.filter((entry) => !(entry.isDirectory() && excluded.has(entry.name)));
      const base = directory;
      const stats = await Promise.all(
        paths.map(({ name }) => lstat(asBytes(`${base}/${name}`)).catch(() => null)),
      );
      for (const [nth, stat] of stats.entries()) {
        if (stat === null) continue;
        bytes += allocated(stat, seen);
        if (stat.isDirectory()) pending.push(`${base}/${paths[nth]?.name}`);
      }
    }
  }
  return bytes;
};

/** Some entries at a time: a directory may have a million. Ends where the directory cannot be read further. */
async function* inBatches(directory: string): AsyncGenerator<Dirent[]> {
  let entries: Dirent[] = [];
  try {
    const options = { encoding: "latin1" as BufferEncoding, bufferSize: batchSize };
    for await (const entry of await opendir(asBytes(directory), options)) {
      if (entries.push(entry) < batchSize) continue;
      yield entries;
      entries = [];
    }
  } catch {
    // Unreadable, or deleted meanwhile.
  }
  yield entries;
}

/** A file with several names counts once. */
const allocated = (stat: Stats, seen: Set<string>): number => {
  if (stat.nlink > 1 && !stat.isDirectory()) {
    const file = `${stat.dev}:${stat.ino}`;
    if (seen.has(file)) return 0;
    seen.add(file);
  }
  return stat.blocks * 512;
};

const asLatin1 = (text: string): string => Buffer.from(text).toString("latin1");
const asBytes = (path: string): Buffer => Buffer.from(path, "latin1");
