import { lstat, mkdir } from "node:fs/promises";
import { canonicalConfig, makeGitDirectory } from "./git-directory.ts";
import { commitOf } from "./base.ts";
import { refuseWhatIsElsewhere } from "./elsewhere.ts";
import { announce, locate, ownedDirectory, readMarker, writeMarker } from "./marker.ts";
import type { AddWorktree, Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { hasDirectory, reclaim, verify, worktreeVariables } from "./worktree-links.ts";
import { clearAway } from "./worktree-remove.ts";

/**
 * A fresh directory for a job without a repository. Its git directory lies beside the markers, so that work can be
 * committed and salvaged even when the agent deletes everything it sees.
 */
export const addScratch = async (room: Room, request: AddWorktree): Promise<Worktree> => {
  const { worktreeId, branch, signal } = request;
  const existing = await readMarker(room, worktreeId);
  if (existing !== null && existing.worktree.repoKey !== null) {
    throw new Error(`it exists already, of the repository ${existing.worktree.repoUrl}`);
  }
  if (existing?.ready === true && (await hasDirectory(existing.worktree))) {
    await reclaim(room, existing.worktree);
    return existing.worktree;
  }
  const place = locate(room, worktreeId, null);
  if (existing === null) await refuseWhatIsElsewhere(room, { worktreeId, ...place });
  const worktree = {
    worktreeId,
    ...place,
    repoUrl: "",
    repoKey: null,
    branch,
    baseRef: request.baseRef,
    baseSha: null,
    warnings: [],
  };
  if (existing !== null) await clearAway(room, worktree);
  else if ((await lstat(place.path).catch(() => null)) !== null) {
    throw new Error(`${place.path} exists and is not ours; remove it`);
  }
  const used = (await lstat(place.gitDir).catch(() => null)) !== null;
  await announce(room, { ready: false, leftOut: [], worktree });
  await mkdir(ownedDirectory(room), { recursive: true });
  const config = canonicalConfig(room.settings, { url: null, bare: false });
  await makeGitDirectory(place.gitDir, { config, head: `refs/heads/${branch}` });
  await mkdir(place.path);
  await reclaim(room, worktree);
  await verify(worktree);
  if (
    used &&
    (await commitOf(room, { gitDir: place.gitDir, name: `refs/heads/${branch}`, signal })) !== null
  ) {
    await runGit(room, ["reset", "--hard", "--quiet"], { variables: worktreeVariables(worktree), signal });
  }
  await writeMarker(room, { ready: true, leftOut: [], worktree });
  return worktree;
};
