import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { GitError } from "../lib/git.ts";
import { poll } from "../lib/wait.ts";
import { capture, listFiles, unsavedCommits } from "./capture.ts";
import { makeDirectory } from "./git-directory.ts";
import { apartOf, branchRef, hasDirectory, type Refs } from "./clone.ts";
import { attempt } from "./failure.ts";
import { runGitOrNull, runRemote, type GitContext } from "./git-context.ts";
import { importCommits } from "./import.ts";
import { openWorktree } from "./open-worktree.ts";
import { runtimeFiles } from "./left-out.ts";
import { readOwner, writeOwner } from "./owner-file.ts";
import { remoteBranches } from "./ref.ts";
import { RepoError, type Worktree } from "./repos.ts";

/** Pushes the worktree's branch, and nothing else, to where the repository came from. @throws RepoError `push_failed` */
export const pushBranch = (context: GitContext, worktree: Worktree): Promise<void> =>
  attempt(context, "push_failed", `push the branch ${worktree.branch} to ${worktree.repoUrl}`, async () => {
    const ref = branchRef(worktree);
    const { tip, refs, push } = await readyToPush(context, worktree);
    await push(["--porcelain"], `${tip ?? ref}:${ref}`);
    if (tip === null) return;
    await requireShown(context, worktree, tip);
    const owned = await readOwner(context, worktree.worktreeId);
    if (owned !== null) await writeOwner(context, { ...owned, pushed: tip });
    await writeTracking(worktree, { refs, tip }).catch(() => undefined);
  });

/** Notes in the agent's clone what the remote has, as `git push` does for a named remote. */
const writeTracking = async (
  { gitDir, branch }: Worktree,
  { refs, tip }: { refs: Refs; tip: string },
): Promise<void> => {
  const name = `${remoteBranches}${branch}`;
  // Git takes no ref below one.
  if ([...refs.keys()].some((other) => name.startsWith(`${other}/`))) return;
  await makeDirectory(gitDir, dirname(name));
  await writeFileAtomic(join(gitDir, name), `${tip}\n`, 0o644);
};

/**
 * Asks the remote whether it takes pushes, and sends nothing. What the branch has there does not count, and neither does
 * what only a real push shows (hooks, protected branches). @throws RepoError `push_failed`
 */
export const tryPush = (context: GitContext, worktree: Worktree): Promise<void> =>
  attempt(context, "push_failed", `push to ${worktree.repoUrl}, so the agent was not started`, async () => {
    const { tip, push } = await readyToPush(context, worktree);
    if (tip !== null) return push(["--dry-run", "--force"], `${tip}:${branchRef(worktree)}`);
    // Without a commit there is nothing to name. git says so once the remote has let it in.
    await push(["--dry-run", "--all"]).catch((error: unknown) => {
      if (!(error instanceof GitError) || !error.said.includes("No refs in common")) throw error;
    });
  });

/** What pushes, and the tip of the branch. */
const readyToPush = async (context: GitContext, worktree: Worktree) => {
  const { repoUrl: url, ownDir: where } = worktree;
  if (url === "")
    throw new RepoError("push_failed", "There is nowhere to push to: the job has no repository.");
  const { agent } = await openWorktree(context, worktree);
  const tip = agent.refs.get(branchRef(worktree)) ?? null;
  if (tip !== null) await importCommits(context, worktree, [tip]);
  await refuseConfiguredHooks(context, url);
  const push = async (options: string[], ...refs: string[]): Promise<void> => {
    const command = ["push", ...options, "--no-verify", "--no-recurse-submodules"] as const;
    await runRemote(context, url, { command, refs, where });
  };
  return { tip, refs: agent.refs, push };
};

/** Refuses a local repository with hooks in its configuration (git 2.54): no option of git turns all of them off. */
const refuseConfiguredHooks = async (context: GitContext, url: string): Promise<void> => {
  const path = url.replace(/^file:\/\//, "");
  if (!path.startsWith("/")) return;
  // The places where git looks for a repository of this path.
  for (const gitDir of [`${path}/.git`, path, `${path}.git/.git`, `${path}.git`]) {
    if (!existsSync(join(gitDir, "config"))) continue;
    const args = ["config", "--name-only", "--get-regexp", "^hook\\."];
    const variables = { GIT_DIR: gitDir };
    if ((await runGitOrNull(context, null, args, { variables })) === null) continue;
    const message = `The repository ${url} has hooks in its configuration (hook.*), which would run as the service's user. Remove them from ${gitDir}/config, or give an https or ssh URL.`;
    throw new RepoError("push_failed", message);
  }
};

/** A push is done when the remote shows it. Some servers need a moment. */
const requireShown = async (
  context: GitContext,
  { branch, repoUrl: url }: Worktree,
  tip: string,
): Promise<void> => {
  const ask = (): Promise<true | null> =>
    runRemote(context, url, { command: ["ls-remote"], refs: [`refs/heads/${branch}`] }).then(
      ({ stdout }) => (stdout.startsWith(`${tip}\t`) ? true : null),
      () => null,
    );
  const deadline = performance.now() + 5000;
  if ((await poll(ask, { first: 200, longest: 1000, signal: context.signal, deadline })) !== null) return;
  const message = `git pushed the branch ${branch}, but ${url} does not show it at ${tip}. Look at the branch there, and push it by hand.`;
  throw new RepoError("push_failed", message);
};

/**
 * Whether the remote, as last fetched, has everything of the worktree: no uncommitted file, no commit that is on none of
 * its branches, no nested repository. False whenever that is not sure: the caller then saves the work before it removes
 * anything. No agent may run in the worktree. Rejects only with the signal's reason.
 */
export const isPushed = async (context: GitContext, worktree: Worktree): Promise<boolean> => {
  try {
    // The clone was deleted with its directory.
    if (!(await hasDirectory(worktree))) return true;
    const { agent, owned, kept, tree, headTree, isStaged } = await capture(context, worktree, { live: true });
    if (kept.length > 0 || tree !== headTree || isStaged || agent.on !== branchRef(worktree)) return false;
    if (agent.exclude.length > 0) {
      const left = [...runtimeFiles, ...(await apartOf(worktree.ownDir)).map((path) => `/${path}`)];
      const options = [
        "--others",
        "--exclude-per-directory=.gitignore",
        ...left.map((each) => `--exclude=${each}`),
      ];
      if ((await listFiles(context, worktree, ...options)).length > 0) return false;
    }
    const pushed = owned?.pushed ?? null;
    return (await unsavedCommits(context, worktree, { agent, pushed })).length === 0;
  } catch {
    context.signal.throwIfAborted();
    return false;
  }
};
