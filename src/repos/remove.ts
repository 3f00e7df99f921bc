import { rename } from "node:fs/promises";
import { join } from "node:path";
import { removeTree } from "../lib/remove-tree.ts";
import { asRepoError } from "./failure.ts";
import type { GitContext } from "./git-context.ts";
import { ownDirectory, readOwner, removeOwner, worktreePath } from "./owner-file.ts";

/**
 * Removes a worktree that has an owner file, and nothing else. Each step can be repeated. The owner file is removed last:
 * the next call finishes an interrupted removal.
 */
export const removeWorktree = async (
  context: GitContext,
  worktreeId: string,
  signal: AbortSignal,
): Promise<void> => {
  try {
    await removeDirectory(context, worktreeId);
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `remove the worktree ${worktreeId}`,
      signal,
    });
  }
};

export const removeDirectory = async (context: GitContext, worktreeId: string): Promise<void> => {
  if ((await readOwner(context, worktreeId)) === null) return;
  // Renamed first: a half-removed directory must not look like a worktree in which files were deleted.
  const trash = join(context.settings.worktreeRoot, ".owned", `${worktreeId}.trash`);
  await removeTree(trash);
  await rename(worktreePath(context, worktreeId), trash).catch((error: unknown) => {
    if (!(error instanceof Error) || !("code" in error) || error.code !== "ENOENT") throw error;
  });
  await removeTree(trash);
  await removeTree(ownDirectory(context, worktreeId));
  await removeOwner(context, worktreeId);
};
