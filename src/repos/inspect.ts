import type { Worktree, WorktreeState } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";
import { emptyTree, takeSnapshot } from "./snapshot.ts";
import { sharedBy, stashesOf } from "./stash.ts";
import { shownPath } from "./tree.ts";

/** See the port. */
export const inspectWorktree = async (
  room: Room,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<WorktreeState> => {
  const { head, headTree, tip, tree, passedOver } = await takeSnapshot(room, { worktree, signal });
  const ahead = await countCommits(room, {
    worktree,
    of: head === null ? [] : [head],
    without: worktree.baseSha === null ? [] : [worktree.baseSha],
    signal,
  });
  const diffStat = await diffFromBase(room, { worktree, tree, signal });
  const dirty = tree !== headTree || head !== tip;
  const stashed = (await stashesOf(room, worktree, signal)).length;
  const shared = await sharedBy(room, worktree, signal);
  return { dirty, head, ahead, diffStat, passedOver: passedOver.map(shownPath), stashed, shared };
};

/** Commits in the history of some commits that is not also that of others. */
export const countCommits = async (
  room: Room,
  {
    worktree,
    of,
    without,
    signal,
  }: { worktree: Worktree; of: string[]; without: string[]; signal: AbortSignal },
): Promise<number> => {
  if (of.length === 0) return 0;
  const { stdout } = await runGit(room, ["rev-list", "--count", ...of, "--not", ...without], {
    variables: gitDirVariables(worktree.commonDir),
    signal,
  });
  return Number(stdout);
};

/** Paths that differ between two trees. */
export const changedPaths = async (
  room: Room,
  diff: { worktree: Worktree; from: string; to: string; signal: AbortSignal },
): Promise<string[]> => {
  if (diff.from === diff.to) return [];
  const { stdout } = await diffTree(room, { ...diff, format: "--name-only" });
  return stdout.split("\0").filter((path) => path !== "");
};

const diffFromBase = async (
  room: Room,
  diff: { worktree: Worktree; tree: string; signal: AbortSignal },
): Promise<WorktreeState["diffStat"]> => {
  const { stdout } = await diffTree(room, {
    worktree: diff.worktree,
    from: diff.worktree.baseSha ?? emptyTree,
    to: diff.tree,
    signal: diff.signal,
    format: "--numstat",
  });
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
    from,
    to,
    signal,
    format,
  }: { worktree: Worktree; from: string; to: string; signal: AbortSignal; format: string },
): Promise<{ stdout: string }> => {
  const args = ["diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", format, from, to];
  return runGit(room, args, {
    variables: gitDirVariables(worktree.commonDir),
    maxOutputBytes: 256 * 1024 * 1024,
    signal,
  });
};
