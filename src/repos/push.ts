import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { poll } from "../lib/wait.ts";
import { isPresent, readIndex, unsavedCommits } from "./capture.ts";
import { hasDirectory, reclaim, textOf, worktreeVariables } from "./clone.ts";
import { asRepoError } from "./failure.ts";
import {
  gitDirVariables,
  runGit,
  runGitOrNull,
  serverOptions,
  withNetwork,
  type GitContext,
} from "./git-context.ts";
import { readOwner, writeOwner } from "./owner-file.ts";
import { commitOf } from "./ref.ts";
import { RepoError, type Worktree } from "./repos.ts";
import { hasOwnWork } from "./submodule.ts";

/** Pushes the worktree's branch, and nothing else, to where the repository came from. @throws RepoError `push_failed` */
export const pushBranch = async (
  context: GitContext,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<void> => {
  const { branch, gitDir, repoUrl } = worktree;
  const what = `push the branch ${branch} to ${repoUrl}`;
  await asPush({ context, worktree, what, signal }, async (push) => {
    const ref = `refs/heads/${branch}`;
    const tip = await commitOf(context, { gitDir, name: ref, signal });
    await push(["--porcelain"], `${tip ?? ref}:${ref}`);
    if (tip !== null) await requireShown(context, { worktree, tip, signal });
    if (tip !== null) await notePushed(context, { worktree, tip, signal });
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
  const { branch, gitDir, repoUrl } = worktree;
  const what = `push to ${repoUrl}, so the agent was not started`;
  await asPush({ context, worktree, what, signal }, async (push) => {
    const ref = `refs/heads/${branch}`;
    const tip = await commitOf(context, { gitDir, name: ref, signal });
    if (tip !== null) return await push(["--dry-run", "--force"], `${tip}:${ref}`);
    // Without a commit there is nothing to name. git says so once the remote has let it in.
    await push(["--dry-run", "--all"]).catch((error: unknown) => {
      if (!(error instanceof GitError) || !error.said.includes("No refs in common")) throw error;
    });
  });
};

type Pushing = { context: GitContext; worktree: Worktree; what: string; signal: AbortSignal };

/** Runs what pushes, with what that needs. @throws RepoError `push_failed` */
const asPush = async (
  { context, worktree, what, signal }: Pushing,
  run: (push: (options: string[], ...refspecs: string[]) => Promise<void>) => Promise<void>,
): Promise<void> => {
  const { repoUrl: url, gitDir } = worktree;
  if (url === "")
    throw new RepoError("push_failed", "There is nowhere to push to: the job has no repository.");
  const always = ["--no-verify", "--no-recurse-submodules", ...serverOptions(url, "receive-pack")];
  try {
    await reclaim(context, worktree);
    await refuseConfiguredHooks(context, url, signal);
    await run(async (options, ...refspecs) => {
      await withNetwork(context, { url, signal }, (access) =>
        runGit(context, ["push", ...options, ...always, "--", url, ...refspecs], {
          ...access,
          variables: { ...access.variables, ...gitDirVariables(gitDir) },
          signal,
        }),
      );
    });
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
const notePushed = async (context: GitContext, { worktree, tip, signal }: Pushed): Promise<void> => {
  const { branch, gitDir, worktreeId } = worktree;
  const owned = await readOwner(context, worktreeId);
  if (owned !== null) await writeOwner(context, { ...owned, pushed: tip });
  const args = ["update-ref", `refs/remotes/origin/${branch}`, tip];
  await runGit(context, args, { variables: gitDirVariables(gitDir), signal }).catch((error: unknown) => {
    // The push has succeeded. A ref with the name of one of its directories, for example, prevents this one.
    if (!(error instanceof GitError)) throw error;
  });
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
    const owned = await reclaim(context, worktree);
    if (!(await isOnBranch(worktree)) || !(await isClean(context, worktree, signal))) return false;
    const unsaved = { worktree, pushed: owned?.pushed ?? null, maxCount: 1, signal };
    return (await unsavedCommits(context, unsaved)).length === 0;
  } catch {
    signal.throwIfAborted();
    return false;
  }
};

export const isOnBranch = async ({ gitDir, branch }: Worktree): Promise<boolean> =>
  (await textOf(join(gitDir, "HEAD"))) === `ref: refs/heads/${branch}\n`;

export const isClean = async (
  context: GitContext,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<boolean> => {
  const variables = worktreeVariables(worktree);
  const { hidden, submodules, directories } = await readIndex(context, { worktree, variables, signal });
  if (hidden.length > 0) return false;
  // git must not look into submodules: it would trust their configuration.
  const args = ["status", "--porcelain", "--no-renames", "--ignore-submodules=dirty"];
  const { stdout, stderr } = await runGit(context, args, { variables, signal });
  // Output on stderr means a directory that could not be read.
  if (stdout !== "" || stderr !== "") return false;
  // Any other nested repository is in the status as a new file.
  const nested = [
    ...[...directories].map((directory) => isPresent(worktree.path, `${directory}/.git`)),
    ...[...submodules].map(([path, commit]) => hasOwnWork(context, { worktree, path, commit, signal })),
  ];
  return (await Promise.all(nested)).every((isRepository) => !isRepository);
};
