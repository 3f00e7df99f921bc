import { stat } from "node:fs/promises";
import { markerFile, readMarker } from "./marker.ts";
import type { WorktreeSurvey } from "./repos.ts";
import type { Room } from "./room.ts";
import { hasDirectory } from "./worktree-links.ts";

/** See the port. Reads only: an agent may be at work in the worktree. */
export const surveyWorktree = async (room: Room, worktreeId: string): Promise<WorktreeSurvey | null> => {
  const marker = await readMarker(room, worktreeId);
  if (marker === null) return null;
  // Gone meanwhile: it was removed.
  const file = await stat(markerFile(room, worktreeId)).catch(() => null);
  if (file === null) return null;
  const { worktree, ready, instance, takenBy } = marker;
  return {
    worktree,
    ready,
    standing: await hasDirectory(worktree),
    since: file.mtime,
    instance,
    isTaken: takenBy !== null,
  };
};
