import { lstat, mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { leaveOutEscapingLinks } from "./checkout-care.ts";
import { readMarker } from "./marker.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { updateRef } from "./update-ref.ts";
import { reclaim, worktreeVariables } from "./worktree-links.ts";

/** Puts files, branch, HEAD and index of a worktree as they are in its base. */
export const putBackToBase = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<void> => {
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

/** What an agent put in place of its directory gives way: files written through a link would land where it leads. */
export const clearPlace = async ({ path }: Pick<Worktree, "path">): Promise<void> => {
  const found = await lstat(path).catch(() => null);
  if (found !== null && !found.isDirectory()) await rm(path);
};
