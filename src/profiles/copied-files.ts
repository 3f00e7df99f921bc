import { readdir, realpath, stat } from "node:fs/promises";
import { join } from "node:path";
import { FileFault, isInside, isMissing, outside, unreadable } from "./contained.ts";
import type { Layer } from "./load.ts";

/** A file of `.claude/` that goes into a job's config directory as it is. */
export type CopiedFile = { root: string; from: string; to: string; bytes: number };

/** Bounds of what one profile brings, so that no job copies a home directory by accident. */
const maxFiles = 2000;
const maxBytes = 33_554_432;
const maxDepth = 16;

/**
 * CLAUDE.md, agents/ and skills/ of the layers, parent first: where two layers have the same entry (an agent, a skill) the
 * later one's is taken whole.
 * @throws FileFault for a link that leads out of the profiles directory, a special file, or too much
 */
export const copiedFiles = async (layers: readonly Pick<Layer, "candidate">[]): Promise<CopiedFile[]> => {
  const byEntry = new Map<string, CopiedFile[]>();
  for (const { candidate } of layers) {
    if (candidate.directory === null) continue;
    const directory = join(candidate.directory, ".claude");
    const root = candidate.root.path;
    for (const entry of await entriesOf(directory)) {
      byEntry.set(entry, await filesUnder({ root, from: join(directory, entry), to: entry, depth: 0 }));
    }
  }
  const files = [...byEntry.values()].flat();
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (files.length > maxFiles || bytes > maxBytes) {
    const claude = join(layers.at(-1)?.candidate.directory ?? "", ".claude");
    const limits = `at most ${maxFiles} files and ${maxBytes} bytes are taken`;
    throw new FileFault(`${claude} brings ${files.length} files with ${bytes} bytes; ${limits}`);
  }
  return files;
};

const entriesOf = async (directory: string): Promise<string[]> => {
  const [agents, skills, memory] = await Promise.all([
    list(join(directory, "agents")),
    list(join(directory, "skills")),
    stat(join(directory, "CLAUDE.md")).catch(() => null),
  ]);
  return [
    ...(memory === null ? [] : ["CLAUDE.md"]),
    ...agents.map((entry) => join("agents", entry)),
    ...skills.map((entry) => join("skills", entry)),
  ];
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
