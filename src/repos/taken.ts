import { readMarker } from "./marker.ts";
import { RepoError, type Worktree } from "./repos.ts";
import type { Room } from "./room.ts";

/**
 * Before a worktree's branch is moved or pushed.
 * @throws RepoError `worktree_failed` when another instance has made the worktree anew since, and has the branch
 */
export const refuseTaken = async (
  room: Room,
  { worktreeId, repoKey, path }: Pick<Worktree, "worktreeId" | "repoKey" | "path">,
): Promise<void> => {
  const other = repoKey === null ? null : ((await readMarker(room, worktreeId))?.takenBy ?? null);
  if (other === null) return;
  throw new RepoError(
    "worktree_failed",
    `The instance ${other} has taken the worktree ${worktreeId} over; what is in ${path} is saved and removed by itself.`,
  );
};
