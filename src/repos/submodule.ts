import { lstat, mkdtemp, readdir, realpath } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { isBelow } from "../lib/is-below.ts";
import { removeTree } from "../lib/remove-tree.ts";
import { cacheGitDir, runGit, unlessRefused, type GitContext } from "./git-context.ts";
import { objectsAt } from "./git-objects.ts";
import { pathBytes } from "./path-bytes.ts";
import { borrowObjects, replace, restoreGitDirectory, smallTextOf } from "./git-directory.ts";
import type { Worktree } from "./repos.ts";
import { asCheckedOut } from "./untouched.ts";
import { emptyScratch, indexOf } from "./wall.ts";

/**
 * Whether a submodule holds anything that its remote may lack, or that is not sure: it is checked out otherwise than the index's
 * `commit`, or its logs tell of more than clone and checkout. `path`: bytes.
 */
export const hasOwnWork = async (
  context: GitContext,
  worktree: Worktree,
  { path, commit }: { path: string; commit: string },
): Promise<boolean> => {
  const { path: root } = worktree;
  const directory = join(root, pathBytes(path).toString());
  const gitDir = await gitDirectoryAt(directory);
  if (gitDir === null) return false;
  const places = [join(directory, ".git"), join(root, ".git", "modules")];
  if (!places.some((place) => isBelow(gitDir, place))) return true;
  if ((await ownText(join(gitDir, "HEAD"))) !== `${commit}\n` || !(await isAsCloned(gitDir))) return true;
  return !(await hasFilesOf(context, worktree, { directory, gitDir, commit }));
};

/** That of a submodule which is checked out in a directory; null: none is. */
export const gitDirectoryAt = async (directory: string): Promise<string | null> => {
  const found = await lstat(join(directory, ".git")).catch(() => null);
  if (found === null) return null;
  // One that git has made for a submodule names a directory.
  const [, named = ""] = /^gitdir: (.+)\n$/.exec(await ownText(join(directory, ".git"))) ?? [];
  return resolve(directory, found.isDirectory() ? ".git" : pathBytes(named).toString());
};

/** The commit checked out in a submodule, read as text and through no link: git would obey what is there. `path`: bytes. */
export const headOf = async (root: string, path: string): Promise<string | null> => {
  const gitDir = await gitDirectoryAt(join(root, pathBytes(path).toString()));
  if (gitDir === null || !isBelow(gitDir, root)) return null;
  const common = await commonOf(gitDir);
  if (!isBelow(common, root)) return null;
  const read = (name: string, where = common): Promise<string> => ownText(join(where, name));
  const idIn = (text = ""): string | null => /^[0-9a-f]{40}(?=\s|$)/.exec(text)?.[0] ?? null;
  const head = await read("HEAD", gitDir);
  const [, ref] = /^ref: (refs\/\S+)\n?$/.exec(head) ?? [];
  if (ref === undefined) return idIn(head);
  const packed = (await read("packed-refs")).split("\n").find((line) => line.slice(41) === ref);
  return idIn(await read(ref)) ?? idIn(packed);
};

/** A linked worktree names the git directory of its repository, which has its refs and objects. */
const commonOf = async (gitDir: string): Promise<string> =>
  resolve(gitDir, (await ownText(join(gitDir, "commondir"))).trim());

/** Whether a repository below the worktree has work that only it has; true whenever that is not sure. `path`: bytes. */
export const hasUnsaved = async (context: GitContext, worktree: Worktree, path: string) => {
  const directory = join(worktree.path, pathBytes(path).toString());
  const [own, commit] = [await gitDirectoryAt(directory), await headOf(worktree.path, path)];
  if (own === null || commit === null) return true;
  const gitDir = await commonOf(own);
  // The worktree's branches are saved with it. What was cloned and not added to is somewhere else.
  const isOwn = isBelow(gitDir, worktree.gitDir) || (await isAsCloned(gitDir));
  if (!isOwn && (await objectsAt(context, worktree.ownDir, [commit]))[0] === null) return true;
  return !(await hasFilesOf(context, worktree, { directory, gitDir, commit }));
};

/** Empty: there is no such file, it has more than 64 MiB, or a link leads to it. */
export const ownText = async (file: string): Promise<string> =>
  (await isReal(file)) ? await smallTextOf(file) : "";

/** Whether there is something, and no link on the way. */
export const isReal = async (path: string): Promise<boolean> =>
  (await realpath(path).catch(() => null)) === path;

const isAsCloned = async (gitDir: string): Promise<boolean> => {
  const logs = join(gitDir, "logs");
  if (!(await isReal(logs))) return false;
  const all = await readdir(logs, { recursive: true, withFileTypes: true }).catch(() => []);
  const own = all.filter(
    (file) => !file.isDirectory() && !file.parentPath.startsWith(`${logs}/refs/remotes`),
  );
  // One after another, and each line by itself: an agent may have written many, to hold the service up.
  for (const file of own) {
    const lines = (await ownText(join(file.parentPath, file.name))).split("\n");
    if (lines.pop() !== "" || lines.length === 0) return false;
    if (!lines.every((line) => /\t(clone|checkout): /.test(line))) return false;
  }
  return own.length > 0;
};

/** In a git directory of the service's: an agent's configuration could hide what is changed. */
const hasFilesOf = async (
  context: GitContext,
  worktree: Worktree,
  { directory: path, gitDir, commit }: { directory: string; gitDir: string; commit: string },
): Promise<boolean> => {
  const isClean = async (ownDir: string): Promise<boolean> => {
    const where = { path, ownDir, root: worktree.path, lenders: [join(gitDir, "objects")] };
    await replace(join(ownDir, "HEAD"), `${commit}\n`);
    await runGit(context, where, ["read-tree", commit]);
    const status = ["status", "--porcelain=v2", "-z", "--no-renames", "--ignore-submodules=dirty"];
    const { stdout, stderr } = await runGit(context, where, status, { encoding: "latin1" });
    const found = stdout.matchAll(/1 \.M N\.\.\. (100\d{3}) \1 \1 ([0-9a-f]{40}) \2 ([^\0\n]+)\0/g);
    const files = Array.from(found, ([, mode = "", id = "", path = ""]) => ({ path, mode, id, before: id }));
    const same = await asCheckedOut(context, { ...where, index: indexOf(ownDir) }, files);
    return stderr === "" && stdout.split("\0").length === same.length + 1;
  };
  return withBorrower(context, clonesOf(context, worktree), (ownDir) =>
    unlessRefused(isClean(ownDir), () => false),
  );
};

/** What repositories below the worktree may borrow from. */
const clonesOf = (context: GitContext, { submodules = [], repoKey, ownDir }: Worktree): string[] => [
  ...[...submodules, ...(repoKey === null ? [] : [repoKey])].map((key) => cacheGitDir(context, key)),
  ownDir,
];

/** Gives an action a git directory of the service that reads the objects of others, for as long as it takes. */
export const withBorrower = async <Value>(
  context: GitContext,
  lenders: readonly string[],
  action: (ownDir: string) => Promise<Value>,
): Promise<Value> => {
  const ownDir = await mkdtemp(join(tmpdir(), "service-borrower-"));
  try {
    await restoreGitDirectory(context, ownDir, { url: "", bare: false });
    await borrowObjects(ownDir, lenders);
    await emptyScratch(ownDir);
    return await action(ownDir);
  } finally {
    await removeTree(ownDir);
  }
};

/** Commits by path of the submodules, and of submodules of submodules at the paths `inner`. Paths are bytes. */
export const withInner = async (
  context: GitContext,
  worktree: Worktree,
  { submodules, inner }: { submodules: Map<string, string>; inner: string[] },
): Promise<Map<string, string>> => {
  const { path: root } = worktree;
  const known = new Map(submodules);
  for (const path of inner.toSorted((one, other) => one.length - other.length)) {
    const owners = [...known].filter(([owner]) => path.startsWith(`${owner}/`));
    const [owner, commit] = owners.toSorted(([one], [other]) => other.length - one.length)[0] ?? [];
    if (owner === undefined || commit === undefined) continue;
    const gitDir = await gitDirectoryAt(join(root, pathBytes(owner).toString()));
    if (gitDir === null) continue;
    const asked = ["ls-tree", "-z", commit, "--", pathBytes(path.slice(owner.length + 1)).toString()];
    const call = { encoding: "latin1", variables: { GIT_LITERAL_PATHSPECS: "1" } } as const;
    const lenders = [join(gitDir, "objects")];
    const listed = await withBorrower(context, clonesOf(context, worktree), (ownDir) =>
      unlessRefused(runGit(context, { path: root, ownDir, lenders }, asked, call), () => null),
    );
    const [, named] = /^160000 commit ([0-9a-f]{40})\t/.exec(listed?.stdout ?? "") ?? [];
    if (named !== undefined) known.set(path, named);
  }
  return known;
};
