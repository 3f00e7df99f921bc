import { lstat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { markerFile } from "./marker.ts";
import { ownerOf } from "./ownership.ts";
import { RepoError, type Worktree } from "./repos.ts";
import type { Room } from "./room.ts";
import { hasDirectory, textOf } from "./worktree-links.ts";

/**
 * For an id without a marker that we can read: what there is of it nevertheless is somebody's.
 * @throws RepoError `worktree_failed` when the cached clone has a worktree of this id in another place, as after
 * SERVICE_WORKTREE_ROOT was changed: to make it here would cut that one off from its repository
 */
export const refuseWhatIsElsewhere = async (
  room: Room,
  { worktreeId, path, gitDir }: Pick<Worktree, "worktreeId" | "path" | "gitDir">,
): Promise<void> => {
  const marker = markerFile(room, worktreeId);
  if ((await lstat(marker).catch(() => null)) !== null) {
    throw new Error(
      `${marker} is broken or of another version of the service; use that one, or remove the file and ${path}`,
    );
  }
  // Another instance has it on its own disk, and must be gone: whoever asks has made sure of that.
  const owner = await ownerOf(gitDir);
  if (owner !== null && owner !== room.settings.podName) return;
  const link = (await textOf(join(gitDir, "gitdir")))?.trim() ?? "";
  const other = link.startsWith("/") ? dirname(link) : null;
  if (other === null || other === path || !(await hasDirectory({ path: other }))) return;
  throw new RepoError(
    "worktree_failed",
    `The worktree ${worktreeId} is in ${other}, not under SERVICE_WORKTREE_ROOT (${dirname(path)}). Set SERVICE_WORKTREE_ROOT back to ${dirname(other)}, or move all of that directory, with .owned in it, to ${dirname(path)}; if nothing in ${other} is needed any more, remove it.`,
  );
};
