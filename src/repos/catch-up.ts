import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { capture, type Captured } from "./capture.ts";
import { leaveOutEscapingLinks, specialEntries } from "./checkout-care.ts";
import { branchRef, handOver, indexHiding, openWorktree, worktreeVariables, type Refs } from "./clone.ts";
import { runGit, type GitContext } from "./git-context.ts";
import { writeOwner, type OwnerFile } from "./owner-file.ts";
import { isAncestor } from "./ref.ts";

/**
 * Takes over what others have pushed to a worktree's branch, as last fetched: a fast-forward of a clean tree. Null: the
 * branch has all of it. Else a sentence for user and agent, and nothing is changed.
 */
export const catchUp = async (
  context: GitContext,
  { owned, refs, signal }: { owned: OwnerFile; refs: Refs; signal: AbortSignal },
): Promise<string | null> => {
  const { worktree } = owned;
  const { ownDir: gitDir, branch } = worktree;
  const theirs = refs.find(({ name }) => name === `refs/remotes/origin/${branch}`)?.commit;
  if (theirs === undefined) return null;
  const { agent } = await openWorktree(context, worktree);
  const ours = agent.refs.get(branchRef(worktree));
  const has = (of: string, ancestor: string): Promise<boolean> =>
    isAncestor(context, { gitDir, ancestor, of, signal });
  if (ours !== undefined && (await has(ours, theirs))) return null;
  if (ours !== undefined && agent.on === branchRef(worktree) && (await has(theirs, ours))) {
    const state = await capture(context, { worktree, signal });
    if (await fastForward(context, { owned, state, commit: theirs, signal })) return null;
  }
  return `The branch ${branch} has commits at the remote that this worktree lacks, up to ${theirs}: merge origin/${branch} before the work is done, or the push will be refused.`;
};

type FastForward = { owned: OwnerFile; state: Captured; commit: string; signal: AbortSignal };

/** False: there are changes, or a file that git ignores is in the way. */
const fastForward = async (
  context: GitContext,
  { owned: { worktree, ...owned }, state, commit, signal }: FastForward,
): Promise<boolean> => {
  if (state.kept.length > 0 || state.isStaged || state.tree !== state.headTree) return false;
  const { links } = await specialEntries(context, { worktree, commit, signal });
  const args = ["merge", "--ff-only", "--no-overwrite-ignore", "--quiet", commit];
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: state.index };
  await writeFile(join(worktree.ownDir, "HEAD"), `${state.head}\n`);
  try {
    await runGit(context, args, { variables, cwd: worktree.path, signal });
  } catch (error) {
    if (error instanceof GitError && error.ended === "exited") return false;
    throw error;
  }
  const left = await leaveOutEscapingLinks(worktree, links);
  const leftOut = links.filter((link) => left.includes(link) || owned.leftOut.includes(link));
  await writeOwner(context, { ...owned, worktree, leftOut });
  const own = { variables: worktreeVariables(worktree), signal };
  await runGit(context, ["read-tree", "-i", "--reset", commit], own);
  const index = await indexHiding(context, { worktree, paths: leftOut, signal });
  await handOver(context, worktree, { tip: commit, index, signal });
  return true;
};
