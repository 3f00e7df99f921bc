import { lstat, mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { isBelow } from "../lib/is-below.ts";
import { removeTree } from "../lib/remove-tree.ts";

import { textOf } from "./clone.ts";
import { runGit, unlessRefused, type GitContext } from "./git-context.ts";
import { pathBytes } from "./path-bytes.ts";
import { borrowObjects, canonicalConfig, replace, restoreGitDirectory } from "./git-directory.ts";

/**
 * Whether a submodule holds anything that its remote may lack; true whenever that is not sure. Without: it is not checked
 * out, or its commit and files are those that the index names, and its logs tell of nothing but clone and checkout.
 * `root`: of the worktree; `path`: bytes, one character each; `commit`: the one that the worktree's index names.
 */
export const hasOwnWork = async (
  context: GitContext,
  { root, path, commit }: { root: string; path: string; commit: string },
): Promise<boolean> => {
  const directory = join(root, pathBytes(path).toString());
  const gitDir = await gitDirectoryAt(directory);
  if (gitDir === null) return false;
  const places = [join(directory, ".git"), join(root, ".git", "modules")];
  if (!places.some((place) => isBelow(gitDir, place))) return true;
  if ((await textOf(join(gitDir, "HEAD"))) !== `${commit}\n` || !(await isAsCloned(gitDir))) return true;
  return !(await hasFilesOf(context, directory, { gitDir, commit }));
};

/** That of a submodule which is checked out in a directory; null: none is. */
export const gitDirectoryAt = async (directory: string): Promise<string | null> => {
  const found = await lstat(join(directory, ".git")).catch(() => null);
  if (found === null) return null;
  // One that git has made for a submodule names a directory.
  const [, named = ""] = /^gitdir: (.+)\n$/.exec(await textOf(join(directory, ".git"))) ?? [];
  return resolve(directory, found.isDirectory() ? ".git" : pathBytes(named).toString());
};

const isAsCloned = async (gitDir: string): Promise<boolean> => {
  const logs = join(gitDir, "logs");
  const all = await readdir(logs, { recursive: true, withFileTypes: true }).catch(() => []);
  const own = all.filter(
    (file) => !file.isDirectory() && !file.parentPath.startsWith(`${logs}/refs/remotes`),
  );
  const texts = await Promise.all(own.map((file) => textOf(join(file.parentPath, file.name))));
  return texts.length > 0 && texts.every((text) => /^([^\n]*\t(clone|checkout): [^\n]*\n)+$/.test(text));
};

/** In a git directory of its own: an agent can write the submodule's configuration. */
const hasFilesOf = async (
  context: GitContext,
  path: string,
  { gitDir, commit }: { gitDir: string; commit: string },
): Promise<boolean> => {
  const status = async (ownDir: string) => {
    const where = { path, ownDir };
    await replace(join(ownDir, "HEAD"), `${commit}\n`);
    await runGit(context, where, ["read-tree", commit]);
    return runGit(context, where, ["status", "--porcelain", "--no-renames", "--ignore-submodules=dirty"]);
  };
  const found = await withBorrower(context, gitDir, (ownDir) => unlessRefused(status(ownDir), () => null));
  return found !== null && found.stdout === "" && found.stderr === "";
};

/** Gives an action a git directory of the service that reads the objects of another one, for as long as it takes. */
export const withBorrower = async <Value>(
  context: GitContext,
  lender: string,
  action: (ownDir: string) => Promise<Value>,
): Promise<Value> => {
  const ownDir = await mkdtemp(join(tmpdir(), "service-submodule-"));
  try {
    const config = canonicalConfig(context.settings, { url: null, bare: false });
    await restoreGitDirectory(ownDir, { config, head: "refs/heads/none" });
    await borrowObjects(ownDir, [lender]);
    return await action(ownDir);
  } finally {
    await removeTree(ownDir);
  }
};

/**
 * Commits by path of the submodules and of those of `inner` that are submodules of submodules. `inner`: where repositories
 * are in submodules. Paths are bytes.
 */
export const withInner = async (
  context: GitContext,
  { root, submodules, inner }: { root: string; submodules: Map<string, string>; inner: string[] },
): Promise<Map<string, string>> => {
  const known = new Map(submodules);
  for (const path of inner.toSorted((one, other) => one.length - other.length)) {
    const owners = [...known].filter(([owner]) => path.startsWith(`${owner}/`));
    const [owner, commit] = owners.toSorted(([one], [other]) => other.length - one.length)[0] ?? [];
    if (owner === undefined || commit === undefined) continue;
    const gitDir = await gitDirectoryAt(join(root, pathBytes(owner).toString()));
    if (gitDir === null) continue;
    const asked = ["ls-tree", "-z", commit, "--", pathBytes(path.slice(owner.length + 1)).toString()];
    const call = { encoding: "latin1", variables: { GIT_LITERAL_PATHSPECS: "1" } } as const;
    const listed = await withBorrower(context, gitDir, (ownDir) =>
      unlessRefused(runGit(context, ownDir, asked, call), () => null),
    );
    const [, named] = /^160000 commit ([0-9a-f]{40})\t/.exec(listed?.stdout ?? "") ?? [];
    if (named !== undefined) known.set(path, named);
  }
  return known;
};
