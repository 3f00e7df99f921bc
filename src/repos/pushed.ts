import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { isAt, readIndex, unsavedCommits } from "./capture.ts";
import { hasDirectory, reclaim, textOf, worktreeVariables } from "./clone.ts";
import { runGit, type GitContext } from "./git-context.ts";
import type { Worktree } from "./repos.ts";

/**
 * See the port. Says false whenever it cannot be sure: the work is then looked at, or saved, before anything is removed.
 * Rejects only with the signal's reason.
 */
export const isPushed = async (
  context: GitContext,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<boolean> => {
  try {
    // Its clone was in it.
    if (!(await hasDirectory(worktree))) return true;
    await reclaim(context, worktree);
    if (!(await isOnBranch(worktree)) || !(await isClean(context, worktree, signal))) return false;
    if (await hasOnlyKnownRefs(worktree)) return true;
    const unsaved = { worktree, pushCounts: true, most: 1, signal };
    return (await unsavedCommits(context, unsaved)).length === 0;
  } catch {
    signal.throwIfAborted();
    return false;
  }
};

const isOnBranch = async ({ gitDir, branch }: Worktree): Promise<boolean> =>
  (await textOf(join(gitDir, "HEAD"))) === `ref: refs/heads/${branch}\n`;

const isClean = async (context: GitContext, worktree: Worktree, signal: AbortSignal): Promise<boolean> => {
  const variables = worktreeVariables(worktree);
  const { hidden, submodules, directories } = await readIndex(context, { worktree, variables, signal });
  if (hidden.length > 0) return false;
  // Repositories at the places of submodules are not looked into: their own configuration would be believed.
  const args = ["status", "--porcelain", "--no-renames", "--ignore-submodules=dirty"];
  const { stdout, stderr } = await runGit(context, args, { variables, signal });
  // A word on the standard error: a directory that could not be read.
  if (stdout !== "" || stderr !== "") return false;
  // Any other repository inside would have shown as a new file.
  const places = [...directories, ...submodules].map((directory) => isAt(worktree.path, `${directory}/.git`));
  return (await Promise.all(places)).every((isRepository) => !isRepository);
};

/**
 * Whether the files of the clone tell, without starting git, that all its refs stand where the remote or the base does, and
 * that nothing was stashed or left behind. False: only git can tell.
 */
const hasOnlyKnownRefs = async ({ gitDir, baseSha }: Worktree): Promise<boolean> => {
  const entries = await readdir(join(gitDir, "refs"), { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => !entry.isDirectory());
  const loose = await Promise.all(
    files.map(async ({ parentPath, name }) => {
      const isRemote = join(parentPath, name).startsWith(join(gitDir, "refs/remotes/"));
      return { isRemote, commit: (await textOf(join(parentPath, name))).trim() };
    }),
  );
  const remote = loose.filter(({ isRemote }) => isRemote).map(({ commit }) => commit);
  const known = new Set([...remote, ...(baseSha === null ? [] : [baseSha])]);
  const packed = await textOf(join(gitDir, "packed-refs"));
  const own = [...packed.matchAll(/^([0-9a-f]{40}) refs\/(?!remotes\/|tags\/)/gm)].map(
    ([, commit = ""]) => commit,
  );
  const tips = [...own, ...loose.filter(({ isRemote }) => !isRemote).map(({ commit }) => commit)];
  const log = await textOf(join(gitDir, "logs/HEAD"));
  const isLeft =
    (await textOf(join(gitDir, "logs/refs/stash"))) !== "" ||
    /\tcheckout: moving from [0-9a-f]{40} /.test(log);
  return !isLeft && tips.every((commit) => known.has(commit));
};
