import { lstat, opendir } from "node:fs/promises";
import type { Dir, Dirent, Stats } from "node:fs";

type DiskUsage = {
  /** Names of directories that are left out, at any depth. */
  exclude: readonly string[];
  signal: AbortSignal;
};

/** How many entries of a directory are looked at at once. */
const batch = 64;

/**
 * Bytes that a tree takes on disk: allocated blocks, a file with several names counted once. Links are not followed. What
 * cannot be read or goes away meanwhile is passed over; no tree: 0.
 */
export const diskUsage = async (root: string, { exclude, signal }: DiskUsage): Promise<number> => {
  // Names need not be UTF-8: paths are bytes, one character each.
  const left = new Set(exclude.map(asLatin1));
  const seen = new Set<string>();
  const found = await lstat(root).catch(() => null);
  if (found === null) return 0;
  let bytes = allocated(found, seen);
  const ahead = found.isDirectory() ? [asLatin1(root)] : [];
  for (let directory = ahead.pop(); directory !== undefined; directory = ahead.pop()) {
    for await (const entries of inBatches(directory)) {
      signal.throwIfAborted();
      const paths = entries.filter((entry) => !(entry.isDirectory() && left.has(entry.name)));
      const base = directory;
      const stats = await Promise.all(
        paths.map(({ name }) => lstat(asBytes(`${base}/${name}`)).catch(() => null)),
      );
      for (const [nth, stat] of stats.entries()) {
        if (stat === null) continue;
        bytes += allocated(stat, seen);
        if (stat.isDirectory()) ahead.push(`${base}/${paths[nth]?.name}`);
      }
    }
  }
  return bytes;
};

/** A few entries at a time: a directory may have a million. */
async function* inBatches(directory: string): AsyncGenerator<Dirent[]> {
  const opened = await opendir(asBytes(directory), {
    encoding: "latin1" as BufferEncoding,
    bufferSize: batch,
  }).catch(() => null);
  if (opened === null) return;
  try {
    for (;;) {
      const entries = await readSome(opened);
      if (entries.length === 0) return;
      yield entries;
    }
  } finally {
    await opened.close().catch(() => undefined);
  }
}

const readSome = async (opened: Dir): Promise<Dirent[]> => {
  const entries: Dirent[] = [];
  while (entries.length < batch) {
    // A directory that was deleted meanwhile ends here.
    const entry = await opened.read().catch(() => null);
    if (entry === null) break;
    entries.push(entry);
  }
  return entries;
};

/** A file with several names counts at the first of them. */
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
