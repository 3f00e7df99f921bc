import { createHash } from "node:crypto";
import { lstat, readFile, readlink } from "node:fs/promises";
import { inside, pathBytes, shownPath } from "../../../src/repos/path-bytes.ts";
import { rawGit } from "./place.ts";

/** What must be found again of an agent's honest work. Paths are bytes, one character each. */
export type Evidence =
  /** A tree has one of these at the path, as `git ls-tree` shows it. */
  | { is: "entry"; path: string; entries: string[]; inIndexOnly?: boolean; isOld?: boolean }
  | { is: "absence"; path: string }
  | { is: "commit"; id: string }
  /** Git does not take it: the worktree is kept because of it. */
  | { is: "kept"; path: string };

export const bytesOf = (path: string): string => Buffer.from(path).toString("latin1");

const blobId = (content: Buffer): string =>
  createHash("sha1").update(`blob ${content.length}\0`).update(content).digest("hex");

/** The entries that git may make of a file or link; attributes may change the ends of its lines. */
const entriesAt = async (root: string, path: string): Promise<string[]> => {
  const file = inside(root, path);
  const stats = await lstat(file);
  if (stats.isSymbolicLink()) return [`120000 blob ${blobId(await readlink(file, { encoding: "buffer" }))}`];
  const content = await readFile(file);
  const unixLines = Buffer.from(content.toString("latin1").replaceAll("\r\n", "\n"), "latin1");
  const mode = (stats.mode & 0o100) === 0 ? "100644" : "100755";
  return [content, unixLines].map((each) => `${mode} blob ${blobId(each)}`);
};

export const entryAt = async (root: string, path: string): Promise<Evidence> => ({
  is: "entry",
  path,
  entries: await entriesAt(root, path),
});

/** Where work has been saved: files of the commits that it was saved in, and all commits that refs reach. */
export type Saved = { trees: Map<string, string>[]; commits: Set<string> };

/** The files of a commit, as `git ls-tree` shows them, by path. */
export const treeOf = async (gitDir: string, ref: string): Promise<Map<string, string>> => {
  const lines = (await rawGit(gitDir, "ls-tree", "-r", "-z", "--full-tree", ref)).split("\0");
  return new Map(
    lines.flatMap((line) => {
      const tab = line.indexOf("\t");
      return tab < 0 ? [] : [[line.slice(tab + 1), line.slice(0, tab)] as const];
    }),
  );
};

export const isGitlink = ({ entries }: Extract<Evidence, { is: "entry" }>): boolean =>
  entries.some((entry) => entry.startsWith("160000"));

const isSaved = (evidence: Evidence, { trees, commits }: Saved): boolean => {
  if (evidence.is === "commit") return commits.has(evidence.id);
  if (evidence.is === "kept") return false;
  const { path } = evidence;
  if (evidence.is === "absence") return trees.some((tree) => !tree.has(path));
  return trees.some((tree) => evidence.entries.includes(tree.get(path) ?? ""));
};

/** A reason that concerns all that is in the worktree, and not one path. */
const isGeneral = (reason: string): boolean =>
  !/^(nested repository at|submodule at|file larger than \w+:|git does not take) /.test(reason);

/** Whether a worktree is kept because of what is at a path, or above it. */
const isNamed = (path: string, kept: readonly string[]): boolean =>
  kept.some((reason) => {
    const [, named] = /^(?:.+? at|.+?:|git does not take) ([^]+)$/.exec(reason) ?? [];
    return named !== undefined && `${shownPath(path)}/`.startsWith(`${named}/`);
  });

const isThere = async (evidence: Evidence, { path: root, gitDir }: Directory): Promise<boolean> => {
  const exists = async (path: string | Buffer) => (await lstat(path).catch(() => null)) !== null;
  // A directory may have come in the place of a file.
  const isFile = async (path: string | Buffer) =>
    (await lstat(path).catch(() => null))?.isDirectory() === false;
  if (evidence.is === "commit") return exists(gitDir);
  if (evidence.is === "absence") return !(await isFile(inside(root, evidence.path)));
  if (evidence.is === "kept") return exists(inside(root, evidence.path));
  if (evidence.inIndexOnly === true) return exists(gitDir);
  if (isGitlink(evidence)) return exists(inside(root, evidence.path));
  const entries = await entriesAt(root, evidence.path).catch(() => []);
  return entries.some((entry) => evidence.entries.includes(entry));
};

type Directory = { path: string; gitDir: string };

/**
 * What has become of a piece of work. `kept`: the reasons for which the service keeps the directory. One of a single path
 * excuses that path alone; a general one excuses all that is still in the directory.
 */
export const fateOf = async (
  evidence: Evidence,
  { saved, kept, directory }: { saved: Saved; kept: readonly string[]; directory: Directory },
): Promise<"saved" | "kept" | "lost"> => {
  if (isSaved(evidence, saved)) return "saved";
  const isExcused = kept.some(isGeneral) || (evidence.is !== "commit" && isNamed(evidence.path, kept));
  return isExcused && (await isThere(evidence, directory)) ? "kept" : "lost";
};

export const shownEvidence = (evidence: Evidence): string =>
  evidence.is === "commit"
    ? `commit ${evidence.id}`
    : `${evidence.is} ${JSON.stringify(pathBytes(evidence.path).toString()).slice(0, 100)}`;
