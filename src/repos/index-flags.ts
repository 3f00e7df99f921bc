import { constants } from "node:fs";
import { lstat, open } from "node:fs/promises";
import { withoutWaiting } from "../lib/without-waiting.ts";

/** What an index file keeps git from looking at, and where. Paths are bytes, one character each (latin1). */
export type IndexFlags = {
  /** Marked "assume unchanged". */
  assumed: string[];
  /** Marked "skip worktree": not checked out. */
  skipped: string[];
  submodules: string[];
  /** All directories that hold an entry, but the topmost. */
  directories: Set<string>;
};

/** With the directory that was noted last. */
type Reading = IndexFlags & { last?: Buffer };

/** Bytes; an index takes about a hundred a file. */
const largest = 512 * 1024 * 1024;

/**
 * Reads the flags of an index file itself: git tells them only with a line for every file. Null: it is not there, broken,
 * or in one of the forms that an agent has to ask for (version 4, split).
 */
export const readIndexFlags = async (file: string): Promise<IndexFlags | null> => {
  const bytes = await readWhole(file);
  if (bytes === null || bytes.length < 32 || bytes.toString("latin1", 0, 4) !== "DIRC") return null;
  const version = bytes.readUInt32BE(4);
  if (version !== 2 && version !== 3) return null;
  const found: IndexFlags = { assumed: [], skipped: [], submodules: [], directories: new Set() };
  const end = bytes.length - 20;
  let at = 12;
  for (let left = bytes.readUInt32BE(8); left > 0; left -= 1) {
    const next = readEntry(bytes, at, found);
    if (next === null || next > end) return null;
    at = next;
  }
  // Extensions. Those with a small letter change what the entries mean; `sdir` ones are entries with a flag.
  while (at + 8 <= end) {
    const name = bytes.toString("latin1", at, at + 4);
    if (/^[a-z]/.test(name) && name !== "sdir") return null;
    at += 8 + bytes.readUInt32BE(at + 4);
  }
  return found;
};

/** @throws Error when the index is there but cannot be read */
export const submodulesOf = async (file: string): Promise<string[]> => {
  const flags = await readIndexFlags(file);
  if (flags === null && (await lstat(file).catch(() => null)) !== null)
    throw new Error(`the index ${file} cannot be read`);
  return flags?.submodules ?? [];
};

/** Notes an entry's flags. Returns where the next one begins; null: it is broken. */
const readEntry = (bytes: Buffer, at: number, found: IndexFlags): number | null => {
  if (at + 64 > bytes.length) return null;
  const flags = bytes.readUInt16BE(at + 60);
  const extended = (flags & 0x4000) !== 0;
  const name = at + (extended ? 64 : 62);
  const length = flags & 0x0fff;
  // The length has twelve bits; a longer name ends with its NUL.
  const end = length < 0x0fff ? name + length : bytes.indexOf(0, name);
  if (end < name || bytes[end] !== 0) return null;
  const above = bytes.lastIndexOf(0x2f, end - 1);
  // Entries are sorted: most lie beside the one before.
  if (above > name && !sameDirectory(bytes, { name, above }, found))
    noteDirectories(found, bytes, { name, above });
  const path = (): string => bytes.toString("latin1", name, end);
  if ((flags & 0x8000) !== 0) found.assumed.push(path());
  if (extended && (bytes.readUInt16BE(at + 62) & 0x4000) !== 0) found.skipped.push(path());
  if ((bytes.readUInt32BE(at + 24) & 0o170000) === 0o160000) found.submodules.push(path());
  return at + ((end - at + 8) & ~7);
};

/** Whether a path lies in the directory that was noted last. */
const sameDirectory = (
  bytes: Buffer,
  { name, above }: { name: number; above: number },
  { last }: Reading,
): boolean => last?.length === above - name && last.compare(bytes, name, above) === 0;

/** The directory of a path, and those it lies in. */
const noteDirectories = (
  found: Reading,
  bytes: Buffer,
  { name, above }: { name: number; above: number },
): void => {
  found.last = bytes.subarray(name, above);
  for (let at = above; at > name; at = bytes.lastIndexOf(0x2f, at - 1)) {
    const directory = bytes.toString("latin1", name, at);
    if (found.directories.has(directory)) return;
    found.directories.add(directory);
  }
};

const readWhole = async (file: string): Promise<Buffer | null> => {
  const handle = await open(file, withoutWaiting.read | constants.O_NOFOLLOW).catch(() => null);
  if (handle === null) return null;
  try {
    const found = await handle.stat();
    return found.isFile() && found.size <= largest ? await handle.readFile() : null;
  } finally {
    await handle.close();
  }
};
