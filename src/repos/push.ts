import { asRepoError } from "./failure.ts";
import { networkAccess } from "./network.ts";
import { RepoError, type Worktree } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";
import { reclaim } from "./worktree-links.ts";

/** Pushes the worktree's branch, and nothing else, to where the repository came from. @throws RepoError `push_failed` */
export const pushBranch = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<void> => {
  const { repoUrl: url, branch, commonDir } = worktree;
  if (url === "")
    throw new RepoError("push_failed", "There is nowhere to push to: the job has no repository.");
  try {
    await reclaim(room, worktree);
    const network = await networkAccess(room, url, signal);
    const refspec = `refs/heads/${branch}:refs/heads/${branch}`;
    await runGit(
      room,
      ["push", "--porcelain", "--no-verify", "--no-recurse-submodules", "--", url, refspec],
      {
        ...network,
        variables: { ...network.variables, ...gitDirVariables(commonDir) },
        signal,
      },
    );
  } catch (error) {
    throw asRepoError(error, { reason: "push_failed", what: `push the branch ${branch} to ${url}`, signal });
  }
};
