import { lstat, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { withoutWaiting } from "../lib/without-waiting.ts";
import { commitOf } from "./base.ts";
import { pastStaleLocks } from "./leftovers.ts";
import type { Worktree } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";

/**
 * Deletes the branch of a worktree that was taken away, when it holds nothing but the base. Not while another worktree
 * stands on it. With the repository's lock held.
 */
export const dropEmptyBranch = async (
  room: Room,
  { branch, baseSha, commonDir: gitDir }: Pick<Worktree, "branch" | "baseSha" | "commonDir">,
  signal: AbortSignal,
): Promise<void> => {
  const ref = `refs/heads/${branch}`;
  // The clone was deleted, and the branch with it.
  if ((await lstat(gitDir).catch(() => null)) === null) return;
  if (baseSha === null || (await commitOf(room, { gitDir, name: ref, signal })) !== baseSha) return;
  if (await isCheckedOut(gitDir, ref)) return;
  // Only when it still stands there: an agent of another job may have moved it meanwhile.
  const remove = () =>
    runGit(room, ["update-ref", "-d", ref, baseSha], { variables: gitDirVariables(gitDir), signal });
  await pastStaleLocks(gitDir, signal, remove).catch((error: unknown) => {
    if (!(error instanceof GitError) || !/but expected|unable to resolve reference/.test(error.said))
      throw error;
  });
};

const isCheckedOut = async (gitDir: string, ref: string): Promise<boolean> => {
  const worktrees = await readdir(join(gitDir, "worktrees")).catch(() => []);
  const heads = await Promise.all(
    worktrees.map((name) =>
      readFile(join(gitDir, "worktrees", name, "HEAD"), {
        encoding: "utf8",
        flag: withoutWaiting.read,
      }).catch(() => ""),
    ),
  );
  return heads.some((head) => head.trim() === `ref: ${ref}`);
};
