import { lstat, mkdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Wall } from "../lib/command.ts";
import type { Limits } from "../lib/process/limits.ts";
import { isBelow } from "../lib/is-below.ts";
import { removeTree } from "../lib/remove-tree.ts";
import { removeLocks } from "./git-directory.ts";

/*
 * Git obeys configuration and attributes that lie where it works: filters, monitors, promisors. So every git that reads or
 * writes what an agent can write runs behind a wall, and what an agent makes it start is held as the agent was.
 *
 * | mode | the wall |
 * |---|---|
 * | `bwrap` | namespaces of its own: nothing is there but what is named below, and all of it ends with git |
 * | `landlock` | nothing else can be opened, no socket can be made; git's process group cannot be left, and ends with git |
 * | `off` | none |
 *
 * | what | behind the wall |
 * |---|---|
 * | the worktree: files, the agent's clone, git directories of submodules | is written |
 * | the scratch: index and new objects | is written |
 * | the service's git directory and what it borrows | is read: with its configuration an agent would steer git outside |
 * | environment | PATH, TZ, the marks of its processes, and git's own variables |
 * | memory and processes | as many as the worktree's run may have |
 *
 * No git outside reads a worktree, a clone of an agent or a scratch. `import.ts` brings their objects as one checked pack.
 * What git behind the wall prints is an agent's word: an id or a path in it is judged by its shape before it is used.
 */

/** Where files of an agent are, and the service's git directory that git uses there. */
export type Tree = {
  path: string;
  ownDir: string;
  /** The worktree that `path` is a part of; absent: `path`. */
  root?: string;
  /** Absent: the one in the scratch. */
  index?: string;
  /** Object directories in the worktree; absent: that of the clone in `path`. */
  lenders?: readonly string[];
  /** A git directory in the scratch, for what writes into its own; absent: `ownDir`. */
  steered?: string;
  /** Limits of the run that works in the worktree; absent: none. */
  limits?: Limits | undefined;
};

/** Absolute paths without links. */
type View = { readable: string[]; writable: string[]; cwd: string; limits: Limits };

/** Puts the wall of the sandbox's mode around a program; null when the mode has none. It is disposed of after the program. */
export type Confine = (view: View) => Promise<(Wall & AsyncDisposable) | null>;

/** For whoever works in no worktree, and the mode `off`. */
export const unconfined: Confine = async () => null;

/** Index and new objects of git behind the wall. */
export const scratchOf = (ownDir: string): string => join(ownDir, "scratch");

export const indexOf = (ownDir: string): string => join(scratchOf(ownDir), "index");

/** Readies a scratch, and removes objects and locks that an earlier git left there. */
export const emptyScratch = async (ownDir: string): Promise<void> => {
  const objects = join(scratchOf(ownDir), "objects");
  // `removeTree` starts a process, which only what an agent closed needs.
  await rm(objects, { recursive: true, force: true }).catch(() => removeTree(objects));
  await mkdir(objects, { recursive: true });
  await removeLocks(scratchOf(ownDir));
};

/** What git behind the wall may see and use. `borrowed`: object directories that `ownDir` names. */
export const viewOf = (
  { path, ownDir, root = path, limits = { memoryBytes: null, processes: null } }: Tree,
  { borrowed, programs }: { borrowed: readonly string[]; programs: readonly string[] },
): View => ({
  readable: [ownDir, ...borrowed.filter((each) => !isBelow(each, root)), ...programs],
  writable: [root, scratchOf(ownDir)],
  cwd: path,
  limits,
});

/** Variables that name git everything: no file that an agent wrote can lead it elsewhere. */
const variablesOf = (
  { path, ownDir, index = indexOf(ownDir), steered = ownDir }: Tree,
  lenders: readonly string[],
): Record<string, string> => ({
  GIT_DIR: steered,
  GIT_COMMON_DIR: steered,
  GIT_WORK_TREE: path,
  GIT_INDEX_FILE: index,
  GIT_OBJECT_DIRECTORY: join(scratchOf(ownDir), "objects"),
  // Quoted: a colon would make two of one.
  GIT_ALTERNATE_OBJECT_DIRECTORIES: [join(ownDir, "objects"), ...lenders]
    .map((path) => JSON.stringify(path))
    .join(":"),
});

/** The wall for git in a tree, and the variables that git needs there. `programs`: where git itself is. */
export const wallFor = async (
  { confine, programs }: { confine: Confine; programs: readonly string[] },
  tree: Tree,
): Promise<{ wall: Awaited<ReturnType<Confine>>; variables: Record<string, string> }> => {
  const { path, ownDir, lenders = [join(path, ".git/objects")] } = tree;
  const named = await readFile(join(ownDir, "objects/info/alternates"), "utf8").catch(() => "");
  const borrowed = await directories(named.split("\n").filter((line) => line !== ""));
  const variables = variablesOf(tree, await directories(lenders));
  return { wall: await confine(viewOf(tree, { borrowed, programs })), variables };
};

/** The paths that are directories. A link is none: it may lead anywhere. */
const directories = async (paths: readonly string[]): Promise<string[]> => {
  const found = await Promise.all(paths.map((path) => lstat(path).catch(() => null)));
  return paths.filter((_, nth) => found[nth]?.isDirectory() === true);
};

/** Whether a path that git behind the wall printed stays in its tree. */
export const staysInside = (path: string): boolean =>
  !path.split("/").some((part) => part === "" || part === "." || part === "..");
