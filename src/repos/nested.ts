import { lstat, rm } from "node:fs/promises";
import { join } from "node:path";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { worktreeVariables } from "./worktree-links.ts";

type Nested = { worktree: Worktree; index: string; said: string; signal: AbortSignal };

/**
 * Repositories that an agent cloned or made inside its worktree: git would note their commit only, or nothing, and their
 * files would be lost. `said` is what git said when everything was added to the index; their files are added as well.
 */
export const addNested = async (room: Room, { worktree, index, said, signal }: Nested): Promise<void> => {
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: index };
  for (const name of nestedNames(said)) {
    const tree = await treeOf(room, { worktree, index: `${index}.nested`, name, signal });
    if (tree === null) continue;
    await runGit(room, ["update-index", "--force-remove", "--", name], { variables, signal });
    await runGit(room, ["read-tree", `--prefix=${name}/`, tree], { variables, signal });
  }
};

const nestedNames = (said: string): string[] => {
  const found = said.matchAll(
    /^(?:warning: adding embedded git repository: (.+)|error: '(.+)' does not have a commit checked out)$/gm,
  );
  const names = [...found].map((match) => (match[1] ?? match[2] ?? "").replace(/\/+$/, ""));
  return [...new Set(names.filter((name) => name !== ""))];
};

const treeOf = async (
  room: Room,
  { worktree, index, name, signal }: { worktree: Worktree; index: string; name: string; signal: AbortSignal },
): Promise<string | null> => {
  const root = join(worktree.path, name);
  if ((await lstat(root).catch(() => null))?.isDirectory() !== true) return null;
  const call = {
    variables: { ...worktreeVariables(worktree), GIT_WORK_TREE: root, GIT_INDEX_FILE: index },
    signal,
  };
  try {
    await runGit(room, ["add", "--all", "--ignore-errors"], call);
    return (await runGit(room, ["write-tree"], call)).stdout.trim();
  } finally {
    for (const file of [index, `${index}.lock`]) await rm(file, { force: true });
  }
};
