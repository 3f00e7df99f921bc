import { join } from "node:path";
import { nestedRepositories, readIndex, unsavedCommits } from "./capture.ts";
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
    return (await unsavedCommits(context, { worktree, pushCounts: true, most: 1, signal })).length === 0;
  } catch {
    signal.throwIfAborted();
    return false;
  }
};

const isOnBranch = async ({ gitDir, branch }: Worktree): Promise<boolean> =>
  (await textOf(join(gitDir, "HEAD"))) === `ref: refs/heads/${branch}\n`;

const isClean = async (context: GitContext, worktree: Worktree, signal: AbortSignal): Promise<boolean> => {
  const variables = worktreeVariables(worktree);
  const { hidden } = await readIndex(context, { worktree, variables, signal });
  if (hidden.length > 0) return false;
  // Repositories at the places of submodules are not looked into: their own configuration would be believed.
  const args = ["status", "--porcelain", "--no-renames", "--ignore-submodules=dirty"];
  const { stdout, stderr } = await runGit(context, args, { variables, signal });
  // A word on the standard error: a directory that could not be read.
  if (stdout !== "" || stderr !== "") return false;
  return (await nestedRepositories(context, worktree, signal)).length === 0;
};
