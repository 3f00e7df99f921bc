import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { leaveOutEscapingLinks } from "./checkout-care.ts";
import { asRepoError } from "./failure.ts";
import { changedPaths, countAhead } from "./inspect.ts";
import { readMarker } from "./marker.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { takeSnapshot } from "./snapshot.ts";
import { updateRef } from "./update-ref.ts";
import { reclaim, worktreeVariables } from "./worktree-links.ts";

/** Puts a worktree back to its base. Resolves to the paths that were changed, or to the commits when they changed none. */
export const discardChanges = async (
  room: Room,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<string[]> => {
  try {
    const { head, tree } = await takeSnapshot(room, { worktree, signal });
    const paths = await changedPaths(room, { worktree, tree, signal });
    const commits = head === null ? 0 : await countAhead(room, { worktree, head, signal });
    await putBack(room, worktree, signal);
    return paths.length > 0 || commits === 0 ? paths : [commits === 1 ? "1 commit" : `${commits} commits`];
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `put the worktree ${worktree.path} back`,
      signal,
    });
  }
};

const putBack = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<void> => {
  const { path, gitDir, branch, baseSha, worktreeId } = worktree;
  const variables = worktreeVariables(worktree);
  const call = { variables, signal };
  await mkdir(path, { recursive: true });
  await reclaim(room, worktree);
  await runGit(room, ["symbolic-ref", "HEAD", `refs/heads/${branch}`], call);
  await updateRef(room, { worktree, ref: `refs/heads/${branch}`, to: baseSha, signal });
  // From a fresh index, whatever state the agent left the other one in.
  await rm(join(gitDir, "index"), { force: true });
  if (baseSha !== null) await runGit(room, ["read-tree", baseSha], call);
  await runGit(room, ["clean", "-ffdq"], call);
  await runGit(room, ["checkout-index", "--all", "--force", "--quiet"], call);
  // Checked out with the rest, because the agent may have put something in their places.
  const links = (await readMarker(room, worktreeId))?.leftOut ?? [];
  await leaveOutEscapingLinks(room, { worktree, links, signal });
};
