import { mkdir } from "node:fs/promises";
import { asRepoError } from "./failure.ts";
import { goBack } from "./go-back.ts";
import { changedPaths, countCommits } from "./inspect.ts";
import { clearPlace, putBackToBase } from "./put-back.ts";
import type { Snapshot, Worktree } from "./repos.ts";
import type { Room } from "./room.ts";
import { emptyTree, takeSnapshot } from "./snapshot.ts";
import { refuseTaken } from "./taken.ts";

type Discard = { worktree: Worktree; since: Snapshot | null; signal: AbortSignal };

/**
 * Puts a worktree back to a snapshot or, without one, to its base. Resolves to the paths that were changed, or to the
 * commits when they changed none.
 */
export const discardChanges = async (room: Room, discard: Discard): Promise<string[]> => {
  const { worktree, since, signal } = discard;
  try {
    await refuseTaken(room, worktree);
    await clearPlace(worktree);
    // Of a directory that is gone every file was deleted.
    if (since !== null) await mkdir(worktree.path, { recursive: true });
    const ignored = since?.ignored ?? [];
    const now = await takeSnapshot(room, { worktree, signal, whole: since !== null, ignored });
    const before = [worktree.baseSha, since?.head, since?.tip].filter((commit) => typeof commit === "string");
    const paths = await changedPaths(room, {
      worktree,
      from: since?.tree ?? worktree.baseSha ?? emptyTree,
      to: now.tree,
      signal,
    });
    const made = [now.head, now.tip].filter((commit) => commit !== null);
    const commits = await countCommits(room, { worktree, of: made, without: before, signal });
    if (since === null) await putBackToBase(room, worktree, signal);
    else await goBack(room, { worktree, since, signal });
    return paths.length > 0 || commits === 0 ? paths : [commits === 1 ? "1 commit" : `${commits} commits`];
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `put the worktree ${worktree.path} back`,
      signal,
    });
  }
};
