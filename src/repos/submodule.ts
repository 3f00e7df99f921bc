import { lstat, mkdtemp, readdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { GitError } from "../lib/git.ts";
import { pathBytes } from "./checkout-care.ts";
import { textOf, worktreeVariables } from "./clone.ts";
import { runGit, type GitContext } from "./git-context.ts";
import { borrowObjects, canonicalConfig, makeGitDirectory } from "./git-directory.ts";
import { removeTree } from "../lib/remove-tree.ts";
import type { Worktree } from "./repos.ts";

/** `path`: bytes, one character each; `commit`: the one that the worktree's index names. */
type Submodule = { worktree: Worktree; path: string; commit: string; signal: AbortSignal };

/**
 * Whether a submodule holds anything that its remote may lack; true whenever that is not sure. Without: it is not checked
 * out, or its commit and files are those that the index names, and its logs tell of nothing but clone and checkout.
 */
export const hasOwnWork = async (
  context: GitContext,
  { worktree, path, commit, signal }: Submodule,
): Promise<boolean> => {
  const root = join(worktree.path, pathBytes(path).toString());
  const found = await lstat(join(root, ".git")).catch(() => null);
  if (found === null) return false;
  const gitDir = found.isDirectory() ? join(root, ".git") : await linkedGitDir(worktree, root);
  if (gitDir === null || (await textOf(join(gitDir, "HEAD"))) !== `${commit}\n`) return true;
  return !(await isAsCloned(gitDir)) || !(await hasFilesOf(context, { root, gitDir, commit, signal }));
};

/** Of a `.git` that names a directory; null: not one that git has made for a submodule. */
const linkedGitDir = async (worktree: Worktree, root: string): Promise<string | null> => {
  const [, named] = /^gitdir: (.+)\n$/.exec(await textOf(join(root, ".git"))) ?? [];
  const gitDir = resolve(root, pathBytes(named ?? "").toString());
  return gitDir.startsWith(join(worktree.path, ".git", "modules", "/")) ? gitDir : null;
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

type Files = { root: string; gitDir: string; commit: string; signal: AbortSignal };

/** In a git directory of its own: an agent can write the submodule's configuration. */
const hasFilesOf = async (context: GitContext, { root, gitDir, commit, signal }: Files): Promise<boolean> => {
  const scratch = await mkdtemp(join(tmpdir(), "service-submodule-"));
  try {
    const config = canonicalConfig(context.settings, { url: null, bare: false });
    await makeGitDirectory(scratch, { config, head: "refs/heads/none" });
    await writeFile(join(scratch, "HEAD"), `${commit}\n`);
    await borrowObjects(scratch, [gitDir]);
    const call = { variables: worktreeVariables({ path: root, ownDir: scratch }), signal };
    await runGit(context, ["read-tree", commit], call);
    const args = ["status", "--porcelain", "--no-renames", "--ignore-submodules=dirty"];
    const { stdout, stderr } = await runGit(context, args, call);
    return stdout === "" && stderr === "";
  } catch (error) {
    if (error instanceof GitError) return false;
    throw error;
  } finally {
    await removeTree(scratch);
  }
};
