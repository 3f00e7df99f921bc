import type { Worktree, WorktreeState } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";
import { emptyTree, takeSnapshot } from "./snapshot.ts";

/** See the port. */
export const inspectWorktree = async (
  room: Room,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<WorktreeState> => {
  const { head, headTree, tip, tree } = await takeSnapshot(room, { worktree, signal });
  const ahead = head === null ? 0 : await countAhead(room, { worktree, head, signal });
  const diffStat = await diffFromBase(room, { worktree, tree, signal });
  return { dirty: tree !== headTree || head !== tip, head, ahead, diffStat };
};

/** Commits of `head` that the base does not have. */
export const countAhead = async (
  room: Room,
  { worktree, head, signal }: { worktree: Worktree; head: string; signal: AbortSignal },
): Promise<number> => {
  const { baseSha, commonDir } = worktree;
  const range = baseSha === null ? [head] : [head, `^${baseSha}`];
  const { stdout } = await runGit(room, ["rev-list", "--count", ...range], {
    variables: gitDirVariables(commonDir),
    signal,
  });
  return Number(stdout);
};

/** Paths that differ between the base and a tree. */
export const changedPaths = async (
  room: Room,
  { worktree, tree, signal }: { worktree: Worktree; tree: string; signal: AbortSignal },
): Promise<string[]> => {
  const { stdout } = await diffTree(room, { worktree, tree, signal, format: "--name-only" });
  return stdout.split("\0").filter((path) => path !== "");
};

const diffFromBase = async (
  room: Room,
  diff: { worktree: Worktree; tree: string; signal: AbortSignal },
): Promise<WorktreeState["diffStat"]> => {
  const { stdout } = await diffTree(room, { ...diff, format: "--numstat" });
  const total = { files: 0, insertions: 0, deletions: 0 };
  for (const line of stdout.split("\0").filter((text) => text !== "")) {
    const [insertions = "", deletions = ""] = line.split("\t");
    total.files += 1;
    // Binary files have dashes for numbers.
    total.insertions += Number.parseInt(insertions, 10) || 0;
    total.deletions += Number.parseInt(deletions, 10) || 0;
  }
  return total;
};

const diffTree = (
  room: Room,
  {
    worktree,
    tree,
    signal,
    format,
  }: { worktree: Worktree; tree: string; signal: AbortSignal; format: string },
): Promise<{ stdout: string }> => {
  const args = [
    "diff-tree",
    "-r",
    "-z",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    format,
    worktree.baseSha ?? emptyTree,
    tree,
  ];
  return runGit(room, args, {
    variables: gitDirVariables(worktree.commonDir),
    maxOutputBytes: 256 * 1024 * 1024,
    signal,
  });
};
