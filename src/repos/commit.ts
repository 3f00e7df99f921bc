import { rename } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { asRepoError } from "./failure.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { takeSnapshot, type Contents } from "./snapshot.ts";
import { refuseTaken } from "./taken.ts";
import { updateRef } from "./update-ref.ts";
import { worktreeVariables } from "./worktree-links.ts";

type CommitRequest = { worktree: Worktree; message: string; signal: AbortSignal };

/**
 * Commits everything to the worktree's own branch, also what the agent committed on another one: the branch then holds
 * the files as they are, and the histories of both. Resolves to its tip; empty: there is no commit at all.
 */
export const commitAll = async (
  room: Room,
  { worktree, message, signal }: CommitRequest,
): Promise<string> => {
  try {
    await refuseTaken(room, worktree);
    return await commit(room, { worktree, message, signal });
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `commit what is in the worktree ${worktree.path}`,
      signal,
    });
  }
};

const commit = async (room: Room, { worktree, message, signal }: CommitRequest): Promise<string> => {
  const { gitDir, branch } = worktree;
  const index = join(gitDir, "service-commit.index");
  const use = (file: string): Promise<void> => rename(file, index).catch(unlessMissing);
  const state = await takeSnapshot(room, { worktree, signal, use });
  const tip = await commitSnapshot(room, { worktree, state, message, signal });
  if (tip === null) return "";
  const call = { variables: worktreeVariables(worktree), signal };
  if (tip !== state.tip)
    await updateRef(room, { worktree, ref: `refs/heads/${branch}`, to: tip, from: state.tip, signal });
  await runGit(room, ["symbolic-ref", "HEAD", `refs/heads/${branch}`], call);
  await rename(index, join(gitDir, "index")).catch(unlessMissing);
  // A clean look at an older commit: the files follow the branch again.
  if (tip === state.tip && tip !== state.head) await runGit(room, ["reset", "--hard", "--quiet"], call);
  return tip;
};

/** A commit that holds a snapshot and follows its head and its branch; an existing one where that says it all. */
export const commitSnapshot = async (
  room: Room,
  { worktree, state, message, signal }: CommitRequest & { state: Contents },
): Promise<string | null> => {
  const { head, headTree, tree, tip } = state;
  const clean = tree === headTree;
  if (head === null && clean) return tip;
  if (head === null)
    return writeCommit(room, { worktree, tree, parents: tip === null ? [] : [tip], message, signal });
  if (clean && tip !== null && !(await hasNews(room, { worktree, commit: head, besides: [tip], signal })))
    return tip;
  if (tip === null || (await isAncestor(room, { worktree, ancestor: tip, of: head, signal }))) {
    return clean ? head : writeCommit(room, { worktree, tree, parents: [head], message, signal });
  }
  return writeCommit(room, { worktree, tree, parents: [head, tip], message, signal });
};

/**
 * Whether a commit brings anything that neither these others nor the remote's branches have. Branches of other jobs do not
 * count: two agents can make one and the same commit, and each job must be able to name its own work.
 */
export const hasNews = async (
  room: Room,
  {
    worktree,
    commit,
    besides,
    signal,
  }: { worktree: Worktree; commit: string; besides: string[]; signal: AbortSignal },
): Promise<boolean> => {
  // Without a wildcard git would take the pattern for a directory.
  const own = `--glob=refs/remotes/origin/${worktree.branch.slice(0, -1)}[${worktree.branch.slice(-1)}]`;
  const remotes = ["--exclude=origin/service/*", "--remotes", own];
  const args = ["rev-list", "--max-count=1", commit, "--not", ...besides, ...remotes];
  return (await runGit(room, args, { variables: worktreeVariables(worktree), signal })).stdout !== "";
};

export const writeCommit = async (
  room: Room,
  { worktree, tree, parents, message, signal }: CommitRequest & { tree: string; parents: string[] },
): Promise<string> => {
  const { gitAuthorName: name, gitAuthorEmail: email } = room.settings;
  const { stdout } = await runGit(
    room,
    ["commit-tree", ...parents.flatMap((parent) => ["-p", parent]), tree],
    {
      variables: {
        ...worktreeVariables(worktree),
        GIT_AUTHOR_NAME: name,
        GIT_AUTHOR_EMAIL: email,
        GIT_COMMITTER_NAME: name,
        GIT_COMMITTER_EMAIL: email,
      },
      input: `${message.trimEnd()}\n`,
      signal,
    },
  );
  return stdout.trim();
};

export const isAncestor = async (
  room: Room,
  {
    worktree,
    ancestor,
    of,
    signal,
  }: { worktree: Worktree; ancestor: string; of: string; signal: AbortSignal },
): Promise<boolean> => {
  if (ancestor === of) return true;
  try {
    await runGit(room, ["merge-base", "--is-ancestor", ancestor, of], {
      variables: worktreeVariables(worktree),
      signal,
    });
    return true;
  } catch (error) {
    if (error instanceof GitError && error.exitCode === 1) return false;
    throw error;
  }
};

/** No index: the directory is gone. */
const unlessMissing = (error: unknown): void => {
  if (!(error instanceof Error) || !("code" in error) || error.code !== "ENOENT") throw error;
};
