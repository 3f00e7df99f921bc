import { blockingLock, pastStaleLocks } from "./leftovers.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { worktreeVariables } from "./worktree-links.ts";

type RefUpdate = {
  worktree: Worktree;
  ref: string;
  /** Null: the ref is deleted. */ to: string | null;
  signal: AbortSignal;
};

/**
 * Points a ref of the worktree's repository at a commit. git guards the ref itself, so the repository's lock is taken
 * only to remove a lock file that an agent's git left when it was killed.
 */
export const updateRef = async (room: Room, { worktree, ref, to, signal }: RefUpdate): Promise<void> => {
  const args = to === null ? ["update-ref", "-d", ref] : ["update-ref", ref, to];
  const update = (): Promise<unknown> =>
    runGit(room, args, { variables: worktreeVariables(worktree), signal });
  const { repoKey: key, repoUrl: url, commonDir } = worktree;
  try {
    await update();
  } catch (error) {
    if (blockingLock(error) === null) throw error;
    const past = (): Promise<unknown> => pastStaleLocks(commonDir, signal, update);
    if (key === null) await past();
    else await withRepositoryLock(room, { key, url, reason: "worktree_failed", signal }, past);
  }
};
