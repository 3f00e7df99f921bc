import { blockingLock, pastStaleLocks } from "./leftovers.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { worktreeVariables } from "./worktree-links.ts";

type RefUpdate = {
  worktree: Worktree;
  ref: string;
  /** Null: the ref is deleted. */ to: string | null;
  /** Where it must stand until then; null: nowhere. Default: wherever. */ from?: string | null;
  signal: AbortSignal;
};

/**
 * Points a ref of the worktree's repository at a commit. git guards the ref itself, so the repository's lock is taken
 * only to remove a lock file that an agent's git left when it was killed.
 */
export const updateRef = async (
  room: Room,
  { worktree, ref, to, from, signal }: RefUpdate,
): Promise<void> => {
  const known = from === undefined ? [] : [from ?? "0".repeat(40)];
  const args = to === null ? ["update-ref", "-d", ref, ...known] : ["update-ref", ref, to, ...known];
  const update = (until: AbortSignal): Promise<unknown> =>
    runGit(room, args, { variables: worktreeVariables(worktree), signal: until });
  const { repoKey: key, repoUrl: url, commonDir } = worktree;
  try {
    await update(signal);
  } catch (error) {
    if (blockingLock(error) === null) throw error;
    const past = (held: { signal: AbortSignal }): Promise<unknown> =>
      pastStaleLocks(commonDir, held.signal, () => update(held.signal));
    if (key === null) await past({ signal });
    else await withRepositoryLock(room, { key, url, reason: "worktree_failed", signal }, past);
  }
};
