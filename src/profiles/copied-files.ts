import type { BigIntStats } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { FileFault, isInside, isMissing, outside, readContained, unreadable } from "./contained.ts";
import type { Layer, Source } from "./load.ts";

/** A file of `.claude/` that is copied unchanged into a config directory; `mark` changes whenever the file does. */
type CopiedFile = { root: string; from: string; to: string; bytes: number; mark: string };

/** A copied file with its content; `to` is relative to the config directory. */
export type FileContent = { to: string; bytes: Buffer; executable: boolean };

/** Time of change, size and inode. */
export const markOf = ({ ctimeNs, size, ino }: BigIntStats): string => `${ctimeNs} ${size} ${ino}`;

/** Directories of `.claude/` that are copied, entry by entry. */
const copiedDirectories = ["agents", "commands", "hooks", "skills"];

/** Limits for one profile, so that no job copies a home directory by accident. */
const maxFiles = 2000;
const maxBytes = 33_554_432;

/** Limit of visited entries: a link to a parent directory would never end. */
const maxEntries = 2 * maxFiles;

/**
 * CLAUDE.md and the copied directories of the layers, parent first: where two layers have the same entry (an agent, a
 * skill), the later one replaces it as a whole.
 * @throws FileFault for a link that leads out of the profiles directory, a special file, or too much
 */
export const copiedFiles = async (layers: readonly Pick<Layer, "source">[]): Promise<CopiedFile[]> => {
  const byEntry = new Map<string, CopiedFile[]>();
  for (const { source } of layers) {
    const entries = await entriesOf(source);
    if (entries.length === 0) continue;
    const root = source.root.path;
    const walk = { root, realPath: await realpath(root), left: maxEntries };
    for (const entry of entries) byEntry.set(entry.to, await filesUnder(walk, entry));
  }
  const files = [...byEntry.values()].flat();
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (files.length > maxFiles || bytes > maxBytes) {
    const claude = join(layers.at(-1)?.source.parts ?? "", ".claude");
    const limits = `at most ${maxFiles} files and ${maxBytes} bytes are taken`;
    throw new FileFault(`${claude} brings ${files.length} files with ${bytes} bytes; ${limits}`);
  }
  return files;
};

/** The content of such files, without those missing by now. @throws FileFault */
export const contentOf = async (files: readonly CopiedFile[]): Promise<FileContent[]> => {
  const contents: FileContent[] = [];
  for (const { root, from, to, bytes } of files) {
    const file = await readContained({ root, path: from, maxBytes: bytes });
    if (file !== null) contents.push({ to, ...file });
  }
  return contents;
};

type Entry = { from: string; to: string };

const entriesOf = async ({ root, parts }: Source): Promise<Entry[]> => {
  if (parts === null) return [];
  const claude = join(parts, ".claude");
  const memoryPaths = root.layout.memories.map((path) => join(parts, path));
  const exist = await Promise.all(memoryPaths.map((path) => stat(path).catch(() => null)));
  const memories = memoryPaths.filter((_, index) => exist[index] !== null);
  if (memories.length > 1) throw new FileFault(`there are ${memories.join(" and ")}; keep one of them`);
  const listed = await Promise.all(
    copiedDirectories.map(async (name) =>
      (await list(join(claude, name))).map((entry) => ({
        from: join(claude, name, entry),
        to: join(name, entry),
      })),
    ),
  );
  return [...memories.map((from) => ({ from, to: "CLAUDE.md" })), ...listed.flat()];
};

/** A mounted configuration map stores its versions under names that begin with `..`. */
const list = async (directory: string): Promise<string[]> => {
  try {
    return (await readdir(directory)).filter((entry) => !entry.startsWith("..")).toSorted();
  } catch (error) {
    if (isMissing(error)) return [];
    throw unreadable(directory, error);
  }
};

const filesUnder = async (
  walk: { root: string; realPath: string; left: number },
  { from, to }: Entry,
): Promise<CopiedFile[]> => {
  const { root } = walk;
  walk.left -= 1;
  if (walk.left < 0)
    throw new FileFault(`${from} is one too many: at most ${maxEntries} files and directories are looked at`);
  const realPath = await realpath(from).catch((error: unknown) => {
    throw unreadable(from, error);
  });
  if (!isInside(walk.realPath, realPath)) throw outside(root, from);
  const status = await stat(realPath, { bigint: true });
  if (status.isFile()) return [{ root, from, to, bytes: Number(status.size), mark: markOf(status) }];
  if (!status.isDirectory()) throw new FileFault(`${from} is neither a file nor a directory`);
  const entries = (await list(from)).map((name) => ({ from: join(from, name), to: join(to, name) }));
  return (await Promise.all(entries.map((entry) => filesUnder(walk, entry)))).flat();
};
