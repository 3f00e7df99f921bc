import { GitError } from "../lib/git.ts";
import { poll } from "../lib/wait.ts";
import { capture, unsavedCommits } from "./capture.ts";
import { branchRef, hasDirectory, openWorktree, worktreeVariables, writeRef } from "./clone.ts";
import { asRepoError } from "./failure.ts";
import { runGit, runGitOrNull, serverOptions, withNetwork, type GitContext } from "./git-context.ts";
import { readOwner, writeOwner } from "./owner-file.ts";
import { RepoError, type Worktree } from "./repos.ts";

/** Pushes the worktree's branch, and nothing else, to where the repository came from. @throws RepoError `push_failed` */
export const pushBranch = async (
  context: GitContext,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<void> => {
  const what = `push the branch ${worktree.branch} to ${worktree.repoUrl}`;
  await asPush({ context, worktree, what, signal }, async (push, tip) => {
    const ref = branchRef(worktree);
    await push(["--porcelain"], `${tip ?? ref}:${ref}`);
    if (tip === null) return;
    await requireShown(context, { worktree, tip, signal });
    await notePushed(context, { worktree, tip });
  });
};

/**
 * Asks the remote whether it takes pushes, and sends nothing. What the branch has there does not count, and neither does
 * what only a real push shows (hooks, protected branches). @throws RepoError `push_failed`
 */
export const tryPush = async (
  context: GitContext,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<void> => {
  const what = `push to ${worktree.repoUrl}, so the agent was not started`;
  await asPush({ context, worktree, what, signal }, async (push, tip) => {
    if (tip !== null) return await push(["--dry-run", "--force"], `${tip}:${branchRef(worktree)}`);
    // Without a commit there is nothing to name. git says so once the remote has let it in.
    await push(["--dry-run", "--all"]).catch((error: unknown) => {
      if (!(error instanceof GitError) || !error.said.includes("No refs in common")) throw error;
    });
  });
};

type Pushing = { context: GitContext; worktree: Worktree; what: string; signal: AbortSignal };

type Push = (options: string[], ...refspecs: string[]) => Promise<void>;

/** Runs what pushes, with what that needs and the tip of the branch. @throws RepoError `push_failed` */
const asPush = async (
  { context, worktree, what, signal }: Pushing,
  run: (push: Push, tip: string | null) => Promise<void>,
): Promise<void> => {
  const { repoUrl: url } = worktree;
  if (url === "")
    throw new RepoError("push_failed", "There is nowhere to push to: the job has no repository.");
  const always = ["--no-verify", "--no-recurse-submodules", ...serverOptions(url, "receive-pack")];
  try {
    const { agent } = await openWorktree(context, worktree);
    await refuseConfiguredHooks(context, url, signal);
    const push: Push = async (options, ...refspecs) => {
      await withNetwork(context, { url, signal }, (access) =>
        runGit(context, ["push", ...options, ...always, "--", url, ...refspecs], {
          ...access,
          variables: { ...access.variables, ...worktreeVariables(worktree) },
          signal,
        }),
      );
    };
    await run(push, agent.refs.get(branchRef(worktree)) ?? null);
  } catch (error) {
    throw asRepoError(error, { reason: "push_failed", what, signal });
  }
};

/** Refuses a local repository with hooks in its configuration (git 2.54): no option of git turns all of them off. */
const refuseConfiguredHooks = async (
  context: GitContext,
  url: string,
  signal: AbortSignal,
): Promise<void> => {
  const path = url.replace(/^file:\/\//, "");
  if (!path.startsWith("/")) return;
  // The places where git looks for a repository of this path.
  for (const gitDir of [`${path}/.git`, path, `${path}.git/.git`, `${path}.git`]) {
    const args = ["config", "--name-only", "--get-regexp", "^hook\\."];
    const found = await runGitOrNull(context, args, { variables: { GIT_DIR: gitDir }, signal });
    if (found === null) continue;
    const message = `The repository ${url} has hooks in its configuration (hook.*), which would run as the service's user. Remove them from ${gitDir}/config, or give an https or ssh URL.`;
    throw new RepoError("push_failed", message);
  }
};

type Pushed = { worktree: Worktree; tip: string; signal: AbortSignal };

/** A push is done when the remote shows it. Some servers need a moment. */
const requireShown = async (context: GitContext, { worktree, tip, signal }: Pushed): Promise<void> => {
  const { branch, repoUrl: url } = worktree;
  const args = ["ls-remote", ...serverOptions(url, "upload-pack"), "--", url, `refs/heads/${branch}`];
  const ask = (): Promise<true | null> =>
    withNetwork(context, { url, signal }, (access) => runGit(context, args, { ...access, signal })).then(
      ({ stdout }) => (stdout.startsWith(`${tip}\t`) ? true : null),
      () => null,
    );
  const deadline = performance.now() + 5000;
  if ((await poll(ask, { first: 200, longest: 1000, signal, deadline })) !== null) return;
  throw new RepoError(
    "push_failed",
    `git pushed the branch ${branch}, but ${url} does not show it at ${tip}. Look at the branch there, and push it by hand.`,
  );
};

/** Notes what was pushed in the owner file and, as `git push` does for a named remote, in the remote-tracking ref. */
const notePushed = async (context: GitContext, { worktree, tip }: Omit<Pushed, "signal">): Promise<void> => {
  const { branch, gitDir, worktreeId } = worktree;
  const owned = await readOwner(context, worktreeId);
  if (owned !== null) await writeOwner(context, { ...owned, pushed: tip });
  // The push has succeeded. A ref with the name of one of its directories, for example, prevents this one.
  await writeRef(gitDir, `refs/remotes/origin/${branch}`, `${tip}\n`).catch(() => undefined);
};

/**
 * See the port. False whenever it is not sure: the caller then saves the work before it removes anything. Rejects only
 * with the signal's reason.
 */
export const isPushed = async (
  context: GitContext,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<boolean> => {
  try {
    // The clone was deleted with its directory.
    if (!(await hasDirectory(worktree))) return true;
    const { agent, owned, kept, tree, headTree, isStaged } = await capture(context, {
      worktree,
      signal,
      live: true,
    });
    if (kept.length > 0 || tree !== headTree || isStaged || agent.on !== branchRef(worktree)) return false;
    const unsaved = { worktree, agent, pushed: owned?.pushed ?? null, maxCount: 1, signal };
    return (await unsavedCommits(context, unsaved)).length === 0;
  } catch {
    signal.throwIfAborted();
    return false;
  }
};
