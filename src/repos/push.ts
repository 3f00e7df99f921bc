import { dirname, join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { GitError } from "../lib/git.ts";
import { some } from "../lib/some.ts";
import { poll } from "../lib/wait.ts";
import { fetchRepo } from "./cache.ts";
import { capture, unsavedCommits } from "./capture.ts";
import { makeDirectory } from "./git-directory.ts";
import { branchRef, emptyTree, hasDirectory, hiddenByAgent, readRefs, type Refs } from "./clone.ts";
import { attempt } from "./failure.ts";
import { checkFilters } from "./filters.ts";
import { runGit, runRemote, type GitContext } from "./git-context.ts";
import { overtaken } from "./host-call.ts";
import { importCommits } from "./import.ts";
import { compareWithRemote, noteOwn, tipAtRemote } from "./lease.ts";
import { openWorktree } from "./open-worktree.ts";
import { readOwner, writeOwner } from "./owner-file.ts";
import { remoteBranches } from "./ref.ts";
import { RepoError, savedDirOf, type Worktree } from "./repos.ts";
import { saveRefs } from "./saved.ts";
import { askLocal } from "./url.ts";

/** Pushes the branch alone. `isPushed` false: it is checked out there, and was saved here. @throws RepoError `push_failed` */
export const pushBranch = (context: GitContext, worktree: Worktree) =>
  attempt(context, "push_failed", `push the branch ${worktree.branch} to ${worktree.repoUrl}`, async () => {
    const ref = branchRef(worktree);
    const { tip, refs, push } = await readyToPush(context, worktree);
    if (tip === null) throw new Error(`the worktree has no branch ${worktree.branch}`);
    const warnings = await checkFilters(context, worktree, tip);
    const isPushed = await pushUnderLease(context, worktree, { tip, push });
    const saved = savedDirOf(worktree.cacheDir);
    // An older one would count as newer work than a rewritten branch.
    if (!isPushed || (await readRefs(saved, [ref])).has(ref))
      await saveRefs(context, worktree, new Map([[ref, tip]]));
    if (!isPushed) return { isPushed, warnings: [...warnings, keptHere(worktree)] };
    await requireShown(context, worktree, tip);
    const owned = await readOwner(context, worktree.worktreeId);
    if (owned !== null) await writeOwner(context, { ...owned, pushed: tip });
    await writeTracking(worktree, { refs, tip }).catch(() => undefined);
    return { isPushed, warnings };
  });

const keptHere = ({ branch, repoUrl }: Worktree): string =>
  `The branch ${branch} is checked out in ${repoUrl}, where a push would change files under somebody's hands: its work is kept by the service, and svc checkout brings it there`;

type Push = (options: string[], ...refs: string[]) => Promise<void>;

/** Pushes when no commit of others is left behind, also after the branch moved. False: it is checked out there. */
const pushUnderLease = async (
  context: GitContext,
  worktree: Worktree,
  { tip, push }: { tip: string; push: Push },
): Promise<boolean> => {
  const { repoUrl: url, branch } = worktree;
  const ref = branchRef(worktree);
  for (let tries = 1; ; tries++) {
    const theirs = await tipAtRemote(worktree);
    const { lost, own } = await compareWithRemote(context, worktree, { tip, theirs });
    if (lost.length > 0) throw new RepoError("push_failed", leavesBehind(branch, lost));
    const forgetOwn = await noteOwn(worktree, own);
    if (await isCheckedOut(context, worktree)) return false;
    try {
      await push(["--porcelain", `--force-with-lease=${ref}:${theirs ?? ""}`], `${tip}:${ref}`);
      return true;
    } catch (error) {
      if (!(error instanceof GitError) || !overtaken.test(error.said)) throw error;
      await forgetOwn();
      if (tries === 3) throw error;
      await fetchRepo(context, { url, allowLocal: true });
    }
  }
};

const leavesBehind = (branch: string, lost: string[]): string =>
  `Nothing was pushed, because the branch ${branch} has commits of others at the remote that the push would remove: ${some(lost)}.\nWhat to do: Have them taken in: svc continue JOB "Merge origin/${branch}".`;

/** Notes in the agent's clone what the remote has, as `git push` does for a named remote. */
const writeTracking = async ({ gitDir, branch }: Worktree, { refs, tip }: { refs: Refs; tip: string }) => {
  const name = `${remoteBranches}${branch}`;
  // Git takes no ref below one.
  if ([...refs.keys()].some((other) => name.startsWith(`${other}/`))) return;
  await makeDirectory(gitDir, dirname(name));
  await writeFileAtomic(join(gitDir, name), `${tip}\n`, 0o644);
};

/**
 * Asks the remote whether it takes pushes, and sends nothing: hooks and protected branches do not count. Resolves to a warning
 * when the branch is checked out there. @throws RepoError `push_failed`
 */
export const tryPush = (context: GitContext, worktree: Worktree): Promise<string | null> =>
  attempt(context, "push_failed", `push to ${worktree.repoUrl}, so the agent was not started`, async () => {
    if (await isCheckedOut(context, worktree)) return keptHere(worktree);
    const { tip, push } = await readyToPush(context, worktree);
    // In an empty repository a commit that nothing names stands for the first one.
    const first = ["commit-tree", "-m", "Trial", emptyTree];
    const commit = tip ?? (await runGit(context, worktree.ownDir, first)).stdout.trim();
    await push(["--dry-run", "--force"], `${commit}:${branchRef(worktree)}`);
    return null;
  });

/** Whether a local repository, or a worktree of it, has the branch checked out. git takes no push to it then. */
const isCheckedOut = async (context: GitContext, worktree: Worktree): Promise<boolean> => {
  const listed = await askLocal(context, worktree.repoUrl, ["worktree", "list", "--porcelain"]);
  return listed?.split("\n").includes(`branch ${branchRef(worktree)}`) === true;
};

/** What pushes, and the tip of the branch. */
const readyToPush = async (context: GitContext, worktree: Worktree) => {
  const { repoUrl: url, ownDir: where } = worktree;
  if (url === "")
    throw new RepoError("push_failed", "There is nowhere to push to: the job has no repository.");
  const { agent } = await openWorktree(context, worktree);
  const tip = agent.refs.get(branchRef(worktree)) ?? null;
  if (tip !== null) await importCommits(context, worktree, [tip]);
  await refuseConfiguredHooks(context, url);
  const push: Push = async (options, ...refs) => {
    const command = ["push", ...options, "--no-verify", "--no-recurse-submodules"] as const;
    await runRemote(context, url, { command, refs, where });
  };
  return { tip, refs: agent.refs, push };
};

/** Refuses a local repository with hooks in its configuration (git 2.54): no option of git turns all of them off. */
const refuseConfiguredHooks = async (context: GitContext, url: string): Promise<void> => {
  const args = ["config", "--name-only", "--get-regexp", "^hook\\."];
  if ((await askLocal(context, url, args)) === null) return;
  const message = `The repository ${url} has hooks in its configuration (hook.*), which would run as the service's user. Remove them there, or give an https or ssh URL.`;
  throw new RepoError("push_failed", message);
};

/** A push is done when the remote shows it. Some servers need a moment. */
const requireShown = async (context: GitContext, { branch, repoUrl: url }: Worktree, tip: string) => {
  const ask = (): Promise<true | null> =>
    runRemote(context, url, { command: ["ls-remote"], refs: [`refs/heads/${branch}`] }).then(
      ({ stdout }) => (stdout.startsWith(`${tip}\t`) ? true : null),
      () => null,
    );
  const deadline = performance.now() + 5000;
  if ((await poll(ask, { first: 200, longest: 1000, signal: context.signal, deadline })) !== null) return;
  const message = `git pushed the branch ${branch}, but ${url} does not show it at ${tip}.`;
  throw new RepoError("push_failed", message, { retryable: true });
};

/**
 * Whether the remote, as last fetched, has everything of the worktree, where no agent may run. False whenever that is not sure:
 * the caller then saves the work. Rejects only with the signal's reason.
 */
export const isPushed = async (context: GitContext, worktree: Worktree): Promise<boolean> => {
  try {
    // The clone was deleted with its directory.
    if (!(await hasDirectory(worktree))) return true;
    const { agent, owned, kept, tree, headTree, isStaged } = await capture(context, worktree, { live: true });
    if (kept.length > 0 || tree !== headTree || isStaged || agent.on !== branchRef(worktree)) return false;
    if (agent.exclude.length > 0 && (await hiddenByAgent(context, worktree)).length > 0) return false;
    const pushed = owned?.pushed ?? null;
    return (await unsavedCommits(context, worktree, { agent, pushed })).length === 0;
  } catch {
    context.signal.throwIfAborted();
    return false;
  }
};
