import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { FileFault, isInside, isMissing, outside, readContained, unreadable } from "./contained.ts";
import type { Layer, Source } from "./load.ts";

/** A file of `.claude/` that is copied unchanged; `to` is relative to the config directory. */
export type CopiedFile = { to: string; bytes: Buffer; executable: boolean };

/** Directories of `.claude/` that are copied, entry by entry. */
const copiedDirectories = ["agents", "commands", "hooks", "skills"];

/** Limits for one profile, so that no job copies a home directory by accident. */
const maxFiles = 2000;
const maxBytes = 33_554_432;

/** Limit of visited entries: a link to a parent directory would never end. */
const maxEntries = 2 * maxFiles;

/**
 * CLAUDE.md and the copied directories of the layers, parent first: where two layers have the same entry (an agent, a
 * skill), the later one replaces it as a whole. Not `fs.cp`: it has no limits, and follows links anywhere.
 * @throws FileFault for a link that leads out of the profiles directory, a special file, or too much
 */
export const copiedFiles = async (layers: readonly Pick<Layer, "source">[]): Promise<CopiedFile[]> => {
  const byEntry = new Map<string, CopiedFile[]>();
  for (const { source } of layers) {
    const walk = { root: source.root.path, entries: 0, bytes: 0 };
    for (const entry of await entriesOf(source)) byEntry.set(entry.to, await filesUnder(walk, entry));
  }
  const files = [...byEntry.values()].flat();
  if (files.length > maxFiles)
    throw new FileFault(`${layers.at(-1)?.source.file} brings ${files.length} files; ${limits}`);
  return files;
};

const limits = `at most ${maxFiles} files and ${maxBytes} bytes are taken`;

type Entry = { from: string; to: string };

const entriesOf = async ({ root, parts }: Source): Promise<Entry[]> => {
  if (parts === null) return [];
  const memories: string[] = [];
  for (const path of root.layout.memories.map((memory) => join(parts, memory)))
    if ((await stat(path).catch(() => null)) !== null) memories.push(path);
  if (memories.length > 1) throw new FileFault(`there are ${memories.join(" and ")}; keep one of them`);
  const listed = await Promise.all(
    copiedDirectories.map((name) => list({ from: join(parts, ".claude", name), to: name })),
  );
  return [...memories.map((from) => ({ from, to: "CLAUDE.md" })), ...listed.flat()];
};

/** A mounted configuration map stores its versions under names that begin with `..`. */
const list = async ({ from, to }: Entry): Promise<Entry[]> => {
  const names = await readdir(from).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw unreadable(from, error);
  });
  return names
    .filter((name) => !name.startsWith(".."))
    .toSorted()
    .map((name) => ({ from: join(from, name), to: join(to, name) }));
};

type Walk = { root: string; entries: number; bytes: number };

const filesUnder = async (walk: Walk, { from, to }: Entry): Promise<CopiedFile[]> => {
  const { root } = walk;
  walk.entries += 1;
  if (walk.entries > maxEntries)
    throw new FileFault(`${from} is one too many: at most ${maxEntries} files and directories are looked at`);
  const status = await stat(from).catch((error: unknown) => {
    throw unreadable(from, error);
  });
  if (status.isDirectory()) {
    if (!isInside(await realpath(root), await realpath(from))) throw outside(root, from);
    const files: CopiedFile[] = [];
    for (const entry of await list({ from, to })) files.push(...(await filesUnder(walk, entry)));
    return files;
  }
  walk.bytes += status.size;
  if (walk.bytes > maxBytes) throw new FileFault(`${from} is one file too many: ${limits}`);
  const file = await readContained({ root, path: from, maxBytes });
  return file === null ? [] : [{ to, ...file }];
};
