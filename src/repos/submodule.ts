import { lstat, mkdtemp, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
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
  const found = await lstat(join(directory, ".git")).catch(() => null);
  if (found === null) return false;
  // One that git has made for a submodule names a directory.
  const [, named = ""] = /^gitdir: (.+)\n$/.exec(await textOf(join(directory, ".git"))) ?? [];
  const gitDir = resolve(directory, found.isDirectory() ? ".git" : pathBytes(named).toString());
  if (!found.isDirectory() && !gitDir.startsWith(join(root, ".git", "modules", "/"))) return true;
  if ((await textOf(join(gitDir, "HEAD"))) !== `${commit}\n` || !(await isAsCloned(gitDir))) return true;
  return !(await hasFilesOf(context, directory, { gitDir, commit }));
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
  const ownDir = await mkdtemp(join(tmpdir(), "service-submodule-"));
  const where = { path, ownDir };
  const status = async () => {
    const config = canonicalConfig(context.settings, { url: null, bare: false });
    await restoreGitDirectory(ownDir, { config, head: "refs/heads/none" });
    await replace(join(ownDir, "HEAD"), `${commit}\n`);
    await borrowObjects(ownDir, [gitDir]);
    await runGit(context, where, ["read-tree", commit]);
    return runGit(context, where, ["status", "--porcelain", "--no-renames", "--ignore-submodules=dirty"]);
  };
  try {
    const found = await unlessRefused(status(), () => null);
    return found !== null && found.stdout === "" && found.stderr === "";
  } finally {
    await removeTree(ownDir);
  }
};
