import { GitError } from "../lib/git.ts";
import { leaveOutEscapingLinks, specialEntries } from "./checkout-care.ts";
import { worktreeVariables } from "./clone.ts";
import { runGit, type GitContext } from "./git-context.ts";
import { writeOwner, type OwnerFile } from "./owner-file.ts";
import { isClean, isOnBranch } from "./push.ts";
import { commitOf, isAncestor } from "./ref.ts";

/**
 * Takes over what others have pushed to a worktree's branch, as last fetched: a fast-forward of a clean tree. Null: the
 * branch has all of it. Else a sentence for user and agent, and nothing is changed.
 */
export const catchUp = async (
  context: GitContext,
  owned: OwnerFile,
  signal: AbortSignal,
): Promise<string | null> => {
  const { worktree } = owned;
  const { gitDir, branch } = worktree;
  const theirs = await commitOf(context, { gitDir, name: `refs/remotes/origin/${branch}`, signal });
  if (theirs === null) return null;
  const ours = await commitOf(context, { gitDir, name: `refs/heads/${branch}`, signal });
  const has = (of: string, ancestor: string): Promise<boolean> =>
    isAncestor(context, { gitDir, ancestor, of, signal });
  if (ours !== null && (await has(ours, theirs))) return null;
  const isBehind = ours !== null && (await has(theirs, ours));
  const isFree = isBehind && (await isOnBranch(worktree)) && (await isClean(context, worktree, signal));
  if (isFree && (await fastForward(context, owned, theirs, signal))) return null;
  return `The branch ${branch} has commits at the remote that this worktree lacks, up to ${theirs}: merge origin/${branch} before the work is done, or the push will be refused.`;
};

/** False: a file that git ignores is in the way. */
const fastForward = async (
  context: GitContext,
  { worktree, ...owned }: OwnerFile,
  commit: string,
  signal: AbortSignal,
): Promise<boolean> => {
  const { links } = await specialEntries(context, { worktree, commit, signal });
  const args = ["merge", "--ff-only", "--no-overwrite-ignore", "--quiet", commit];
  try {
    await runGit(context, args, { variables: worktreeVariables(worktree), cwd: worktree.path, signal });
  } catch (error) {
    if (error instanceof GitError && error.ended === "exited") return false;
    throw error;
  }
  const left = await leaveOutEscapingLinks(context, { worktree, links, signal });
  const leftOut = links.filter((link) => left.includes(link) || owned.leftOut.includes(link));
  await writeOwner(context, { ...owned, worktree, leftOut });
  return true;
};
