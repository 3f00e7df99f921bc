import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { FileFault, isInside, isMissing, outside, readContained, unreadable } from "./contained.ts";
import type { Layer, Source } from "./load.ts";

/** A file of `.claude/` that goes into a config directory as it is. */
type CopiedFile = { root: string; from: string; to: string; bytes: number };

/** Such a file with its content; `to` is relative to the config directory. */
export type FileContent = { to: string; bytes: Buffer; executable: boolean };

/** Directories of `.claude/` that are copied, entry by entry. */
const copiedDirectories = ["agents", "commands", "hooks", "skills"] as const;

/** Bounds of what one profile brings, so that no job copies a home directory by accident. */
const maxFiles = 2000;
const maxBytes = 33_554_432;
export const maxDepth = 16;

/**
 * CLAUDE.md and the copied directories of the layers, parent first: where two layers have the same entry (an agent, a skill)
 * the later one's is taken whole.
 * @throws FileFault for a link that leads out of the profiles directory, a special file, or too much
 */
export const copiedFiles = async (layers: readonly Pick<Layer, "source">[]): Promise<CopiedFile[]> => {
  const byEntry = new Map<string, CopiedFile[]>();
  for (const { source } of layers) {
    for (const { from, to } of await entriesOf(source))
      byEntry.set(to, await filesUnder({ root: source.root.path, from, to, depth: 0 }));
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

/** Those files with their content. A file that is gone by now is left out. @throws FileFault */
export const contentOf = async (layers: readonly Pick<Layer, "source">[]): Promise<FileContent[]> => {
  const contents: FileContent[] = [];
  for (const { root, from, to, bytes } of await copiedFiles(layers)) {
    const file = await readContained({ root, path: from, maxBytes: bytes });
    if (file !== null) contents.push({ to, ...file });
  }
  return contents;
};

/** What `contentOf` depends on: files, and directories with all that lies in them. */
export const copiedPaths = (layers: readonly Pick<Layer, "source">[]): string[] =>
  layers.flatMap(({ source: { root, parts } }) =>
    parts === null
      ? []
      : [
          ...root.layout.memories.map((path) => join(parts, path)),
          ...copiedDirectories.map((name) => join(parts, ".claude", name)),
        ],
  );

type Entry = { from: string; to: string };

const entriesOf = async ({ root, parts }: Source): Promise<Entry[]> => {
  if (parts === null) return [];
  const claude = join(parts, ".claude");
  const places = root.layout.memories.map((path) => join(parts, path));
  const exist = await Promise.all(places.map((path) => stat(path).catch(() => null)));
  const memories = places.filter((_, index) => exist[index] !== null);
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

/** Names that begin with `..` are how a mounted configuration map keeps its versions. */
const list = async (directory: string): Promise<string[]> => {
  try {
    return (await readdir(directory)).filter((entry) => !entry.startsWith("..")).toSorted();
  } catch (error) {
    if (isMissing(error)) return [];
    throw unreadable(directory, error);
  }
};

type Walk = { root: string; from: string; to: string; depth: number };

const filesUnder = async ({ root, from, to, depth }: Walk): Promise<CopiedFile[]> => {
  const place = await realpath(from).catch((error: unknown) => {
    throw unreadable(from, error);
  });
  if (!isInside(await realpath(root), place)) throw outside(root, from);
  const status = await stat(place);
  if (status.isFile()) return [{ root, from, to, bytes: status.size }];
  if (!status.isDirectory()) throw new FileFault(`${from} is neither a file nor a directory`);
  // A link to a directory above would go on for ever.
  if (depth === maxDepth) throw new FileFault(`${from} is nested deeper than ${maxDepth} directories`);
  const files: CopiedFile[] = [];
  for (const entry of await list(from)) {
    files.push(
      ...(await filesUnder({ root, from: join(from, entry), to: join(to, entry), depth: depth + 1 })),
    );
    if (files.length > maxFiles) throw new FileFault(`${from} holds more than ${maxFiles} files`);
  }
  return files;
};
