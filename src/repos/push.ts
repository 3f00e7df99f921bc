import { GitError } from "../lib/git.ts";
import { commitOf } from "./base.ts";
import { asRepoError } from "./failure.ts";
import { farEnd, networkAccess } from "./network.ts";
import { RepoError, type Worktree } from "./repos.ts";
import { gitDirVariables, runGit, type GitContext } from "./git-context.ts";
import { reclaim } from "./clone.ts";

/** Pushes the worktree's branch, and nothing else, to where the repository came from. @throws RepoError `push_failed` */
export const pushBranch = async (
  context: GitContext,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<void> => {
  const { repoUrl: url, branch, gitDir } = worktree;
  if (url === "")
    throw new RepoError("push_failed", "There is nowhere to push to: the job has no repository.");
  try {
    await reclaim(context, worktree);
    await refuseConfiguredHooks(context, url, signal);
    const network = await networkAccess(context, url, signal);
    const ref = `refs/heads/${branch}`;
    const tip = await commitOf(context, { gitDir, name: ref, signal });
    await runGit(
      context,
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
        variables: { ...network.variables, ...gitDirVariables(gitDir) },
        signal,
      },
    );
    if (tip !== null) await note(context, { worktree, tip, signal });
  } catch (error) {
    throw asRepoError(error, { reason: "push_failed", what: `push the branch ${branch} to ${url}`, signal });
  }
};

/** Hooks that stand in a repository's configuration (git 2.54) are beyond the options of `farEnd`: no option ends them all. */
const refuseConfiguredHooks = async (
  context: GitContext,
  url: string,
  signal: AbortSignal,
): Promise<void> => {
  const path = url.replace(/^file:\/\//, "");
  if (!path.startsWith("/")) return;
  // Where git looks for a repository of this path.
  for (const gitDir of [`${path}/.git`, path, `${path}.git/.git`, `${path}.git`]) {
    const args = ["config", "--name-only", "--get-regexp", "^hook\\."];
    const found = await runGit(context, args, { variables: { GIT_DIR: gitDir }, signal }).catch(
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

/** As git itself notes what the remote has. */
const note = async (
  context: GitContext,
  { worktree, tip, signal }: { worktree: Worktree; tip: string; signal: AbortSignal },
): Promise<void> => {
  const { branch, gitDir } = worktree;
  const args = ["update-ref", `refs/remotes/origin/${branch}`, tip];
  await runGit(context, args, { variables: gitDirVariables(gitDir), signal }).catch((error: unknown) => {
    // A ref by the name of one of its directories, say: the push was done all the same.
    if (!(error instanceof GitError)) throw error;
  });
};
