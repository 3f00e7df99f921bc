import { lstat, rename } from "node:fs/promises";
import { join } from "node:path";
import { dropEmptyBranch } from "./drop-branch.ts";
import { asRepoError } from "./failure.ts";
import { ownedDirectory, readMarker, removeMarker } from "./marker.ts";
import { removeTree } from "./remove-tree.ts";
import { setAsidePaths } from "./repositories-inside.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import type { Worktree } from "./repos.ts";
import { runGit, gitDirVariables, type Room } from "./room.ts";

/**
 * Removes a worktree of ours; nothing happens without our marker. Each step can be repeated, and the marker goes last,
 * so that a removal cut short is taken up by the next call.
 */
export const removeWorktree = async (
  room: Room,
  { worktreeId }: Worktree,
  signal: AbortSignal,
): Promise<void> => {
  try {
    const marker = await readMarker(room, worktreeId);
    if (marker === null) return;
    const { worktree } = marker;
    const { repoKey: key, repoUrl: url } = worktree;
    if (key === null) await clearAway(room, worktree);
    else
      await withRepositoryLock(room, { key, url, reason: "worktree_failed", signal }, async (held) => {
        const now = await readMarker(room, worktreeId);
        await clearAway(room, now?.worktree ?? worktree);
        // The branch is that of the instance which has taken the worktree over.
        if (now?.takenBy === null) await dropEmptyBranch(room, worktree, held.signal);
      });
    if (key === null) await dropEmptyScratch(room, worktree, signal);
    for (const path of await setAsidePaths(room, worktree)) await removeTree(path);
    await removeMarker(room, worktreeId);
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `remove the worktree ${worktreeId}`,
      signal,
    });
  }
};

type Place = Pick<Worktree, "worktreeId" | "path" | "gitDir" | "commonDir">;

/** Takes directory and administrative directory away; the branch stays. With the repository's lock held. */
export const clearAway = async (
  room: Room,
  { worktreeId, path, gitDir, commonDir }: Place,
): Promise<void> => {
  // Renamed first: half a directory must not be taken for a worktree in which files were deleted.
  const trash = join(ownedDirectory(room), `${worktreeId}.trash`);
  await removeTree(trash);
  await rename(path, trash).catch(unlessMissing);
  if (gitDir !== commonDir) await removeTree(gitDir);
  await removeTree(trash);
};

/**
 * Takes away what a checkout that failed has left: no agent was in it, and its job does not know it, so that nobody else
 * would free the room it takes. With the repository's lock held.
 */
export const abandon = async (room: Room, worktreeId: string): Promise<void> => {
  const marker = await readMarker(room, worktreeId);
  // Without our marker the directory is not ours, nor is a marker that we cannot read.
  if (marker === null) return;
  await clearAway(room, marker.worktree);
  await removeMarker(room, worktreeId);
};

/** The repository of a job without one is kept only for what is in it. */
const dropEmptyScratch = async (room: Room, { commonDir }: Worktree, signal: AbortSignal): Promise<void> => {
  if ((await lstat(commonDir).catch(() => null)) === null) return;
  const { stdout } = await runGit(room, ["for-each-ref", "--count=1"], {
    variables: gitDirVariables(commonDir),
    signal,
  });
  if (stdout === "") await removeTree(commonDir);
};

const unlessMissing = (error: unknown): void => {
  if (!(error instanceof Error) || !("code" in error) || error.code !== "ENOENT") throw error;
};
