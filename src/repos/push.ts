import { GitError } from "../lib/git.ts";
import { commitOf } from "./base.ts";
import { asRepoError } from "./failure.ts";
import { farEnd, networkAccess } from "./network.ts";
import { pushedRef } from "./push-notes.ts";
import { RepoError, type Worktree } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";
import { refuseTaken } from "./taken.ts";
import { updateRef } from "./update-ref.ts";
import { reclaim } from "./worktree-links.ts";

/** Pushes the worktree's branch, and nothing else, to where the repository came from. @throws RepoError `push_failed` */
export const pushBranch = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<void> => {
  const { repoUrl: url, branch, commonDir } = worktree;
  if (url === "")
    throw new RepoError("push_failed", "There is nowhere to push to: the job has no repository.");
  try {
    await refuseTaken(room, worktree);
    await reclaim(room, worktree);
    await refuseConfiguredHooks(room, url, signal);
    const network = await networkAccess(room, url, signal);
    const ref = `refs/heads/${branch}`;
    const tip = await commitOf(room, { gitDir: commonDir, name: ref, signal });
    await runGit(
      room,
      [
        "push",
        "--porcelain",
        "--no-verify",
        "--no-recurse-submodules",
        ...farEnd(url, "receive-pack"),
        "--",
        url,
        `${tip ?? ref}:${ref}`,
      ],
      {
        ...network,
        variables: { ...network.variables, ...gitDirVariables(commonDir) },
        signal,
      },
    );
    if (tip !== null) await note(room, { worktree, tip, signal });
  } catch (error) {
    throw asRepoError(error, { reason: "push_failed", what: `push the branch ${branch} to ${url}`, signal });
  }
};

/** Hooks that stand in a repository's configuration (git 2.54) are beyond the options of `farEnd`: no option ends them all. */
const refuseConfiguredHooks = async (room: Room, url: string, signal: AbortSignal): Promise<void> => {
  const path = url.replace(/^file:\/\//, "");
  if (!path.startsWith("/")) return;
  // Where git looks for a repository of this path.
  for (const gitDir of [`${path}/.git`, path, `${path}.git/.git`, `${path}.git`]) {
    const args = ["config", "--name-only", "--get-regexp", "^hook\\."];
    const found = await runGit(room, args, { variables: { GIT_DIR: gitDir }, signal }).catch(
      (error: unknown) => {
        if (error instanceof GitError && error.exitCode === 1) return null;
        throw error;
      },
    );
    if (found === null) continue;
    const message = `The repository ${url} has hooks in its configuration (hook.*), which would run as the service's user. Remove them from ${gitDir}/config, or give an https or ssh URL.`;
    throw new RepoError("push_failed", message);
  }
};

const note = async (
  room: Room,
  { worktree, tip, signal }: { worktree: Worktree; tip: string; signal: AbortSignal },
): Promise<void> => {
  const ref = pushedRef(worktree.branch);
  await updateRef(room, { worktree, ref, to: tip, signal }).catch((error: unknown) => {
    // A ref by the name of one of its directories, say: the push was done all the same.
    if (!(error instanceof GitError)) throw error;
  });
};
