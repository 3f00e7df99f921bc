import { lstat, mkdir, rename, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { GitError } from "../lib/git.ts";
import { removeTree } from "../lib/remove-tree.ts";
import { replaceIfDamaged } from "./cache.ts";
import { type Captured, capture } from "./capture.ts";
import { checkoutWarnings, leaveOutEscapingLinks, specialEntries } from "./checkout-care.ts";
import {
  type Refs,
  branchRef,
  cachedRefs,
  handOver,
  hasDirectory,
  indexHiding,
  makeClone,
  openWorktree,
  remoteRefs,
  renewClone,
  worktreeVariables,
} from "./clone.ts";
import { asRepoError } from "./failure.ts";
import { type GitContext, gitDirVariables, runGit, runGitOrNull } from "./git-context.ts";
import {
  type OwnerFile,
  isWorktreeId,
  locate,
  ownDirectory,
  readOwner,
  removeOwner,
  worktreePath,
  writeOwner,
} from "./owner-file.ts";
import { isAncestor, isRefName, resolveBase } from "./ref.ts";
import { type AddWorktree, RepoError, type Worktree } from "./repos.ts";

/** See the port. @throws RepoError `worktree_failed` */
export const addWorktree = async (context: GitContext, request: AddWorktree): Promise<Worktree> => {
  const { repo, worktreeId, signal } = request;
  try {
    if (!isWorktreeId(worktreeId)) throw new Error(`"${worktreeId}" is no worktree id`);
    if (!isRefName(request.branch)) throw new Error(`"${request.branch}" is no branch name`);
    await mkdir(context.settings.worktreeRoot, { recursive: true, mode: 0o700 });
    const existing = await readOwner(context, worktreeId);
    if (existing !== null && existing.worktree.repoKey !== (repo?.key ?? null))
      throw new Error(`it exists already, for ${existing.worktree.repoUrl || "jobs without a repository"}`);
    if (existing?.ready === true && (await hasDirectory(existing.worktree))) {
      const { cacheDir } = existing.worktree;
      const refs = await cachedRefs(context, { cacheDir, names: remoteRefs, signal });
      await reuse(context, existing, { refs, signal });
      return withBehind(existing.worktree, await catchUp(context, { owned: existing, refs, signal }));
    }
    return await makeOrRepair(context, request, existing);
  } catch (error) {
    throw asRepoError(error, { reason: "worktree_failed", what: `make the worktree ${worktreeId}`, signal });
  }
};

const withBehind = (worktree: Worktree, behind: string | null): Worktree =>
  behind === null ? worktree : { ...worktree, behind, warnings: [behind, ...worktree.warnings] };

/** Reuses an existing worktree. If another instance had it, the caller has made sure that this one is lost. */
const reuse = async (
  context: GitContext,
  existing: OwnerFile,
  { refs, signal }: { refs: Refs; signal: AbortSignal },
): Promise<void> => {
  const { agent } = await openWorktree(context, existing.worktree);
  await renewClone(context, existing, { agent, refs, signal });
  if (existing.instance !== context.settings.podName) await writeOwner(context, existing);
};

const makeOrRepair = async (
  context: GitContext,
  request: AddWorktree,
  existing: OwnerFile | null,
): Promise<Worktree> => {
  const { repo, worktreeId, jobId, signal } = request;
  const { path } = locate(context, worktreeId, null);
  if (existing === null && (await lstat(path).catch(() => null)) !== null)
    throw new Error(`${path} exists and is not the service's; move it away`);
  if (existing !== null) await removeDirectory(context, worktreeId);
  try {
    return await make(context, request, existing);
  } catch (error) {
    const mended = repo === null ? null : await replaceIfDamaged(context, { repo, error, jobId, signal });
    if (mended !== null) {
      await removeDirectory(context, worktreeId);
      const worktree = await make(context, request, existing);
      return { ...worktree, warnings: [mended, ...worktree.warnings] };
    }
    // The caller needs the first error. The next try removes what this removal leaves.
    await removeDirectory(context, worktreeId).catch(() => undefined);
    throw error;
  }
};

const make = async (
  context: GitContext,
  request: AddWorktree,
  existing: OwnerFile | null,
): Promise<Worktree> => {
  const { repo, worktreeId, branch, source = null, signal } = request;
  const paths = locate(context, worktreeId, repo?.key ?? null);
  const own = `refs/heads/${branch}`;
  const names = repo === null ? [own] : [...remoteRefs, own];
  const found = await cachedRefs(context, { cacheDir: paths.cacheDir, names, signal });
  const refs = found.filter(({ name }) => name !== own);
  const known = existing?.ready === true ? existing.worktree : null;
  requireNew(found, request, existing);
  const { baseRef, baseSha, start } = await startOf(context, {
    ...request,
    cacheDir: paths.cacheDir,
    refs: found,
    known,
  });
  const facts = { repoUrl: repo?.url ?? "", repoKey: repo?.key ?? null, branch, baseRef, baseSha };
  const worktree: Worktree = { worktreeId, ...paths, ...facts, warnings: [] };
  const owned = { worktree, leftOut: [], source: source?.worktree.worktreeId ?? null };
  await writeOwner(context, { ...owned, ready: false });
  await mkdir(paths.path);
  await openWorktree(context, worktree);
  const leftOut = start === null ? [] : await checkOut(context, { request, worktree, start, refs });
  const index = await indexHiding(context, { worktree, paths: leftOut, signal });
  await makeClone(context, owned, { tip: start, index, refs });
  await writeOwner(context, { ...owned, leftOut, ready: true });
  return lookBehind(context, { worktree, refs, source, signal });
};

/** One whose branch was pushed before is made from what was saved of it, which the remote's may not be a part of. */
const lookBehind = async (
  context: GitContext,
  {
    worktree,
    refs,
    source,
    signal,
  }: Pick<AddWorktree, "source" | "signal"> & { worktree: Worktree; refs: Refs },
): Promise<Worktree> => {
  if (source || !refs.some(({ name }) => name === `refs/remotes/origin/${worktree.branch}`)) return worktree;
  const owned = await readOwner(context, worktree.worktreeId);
  return owned === null ? worktree : withBehind(worktree, await catchUp(context, { owned, refs, signal }));
};

/** A ref is a file: `a/b` cannot be beside `a`. */
const requireNew = (
  refs: Refs,
  { branch, mustBeNew = false, baseRef, repo }: AddWorktree,
  existing: OwnerFile | null,
): void => {
  if (!mustBeNew || existing !== null) return;
  const taken = [...refs.map(({ name }) => name.replace(/^refs\/(remotes\/origin|heads)\//, "")), baseRef];
  const other = taken.find((name) => `${name}/`.startsWith(`${branch}/`) || branch.startsWith(`${name}/`));
  if (other === undefined) return;
  const where = other === baseRef ? "is the base" : `exists already in ${repo?.url ?? "an earlier job"}`;
  const message = `The branch "${branch}" cannot be made: "${other}" ${where}.\nWhat to do: Choose another name for options.branch.`;
  throw new RepoError("worktree_failed", message);
};

type CheckOut = { request: AddWorktree; worktree: Worktree; start: string; refs: Refs };

/** Checks out the files and adds to the worktree's warnings. Resolves to the links that were left out. */
const checkOut = async (
  context: GitContext,
  { request: { jobId, branch, signal }, worktree, start, refs }: CheckOut,
): Promise<string[]> => {
  const special = await specialEntries(context, { worktree, commit: start, signal });
  const call = { variables: worktreeVariables(worktree), cwd: worktree.path, jobId, signal };
  await runGit(context, ["read-tree", "--reset", "-u", start], call);
  const leftOut = await leaveOutEscapingLinks(worktree, special.links);
  const care = await checkoutWarnings(worktree, special, leftOut);
  worktree.warnings.push(...care, ...branchInTheWay(refs, branch));
  return leftOut;
};

type StartRequest = AddWorktree & { cacheDir: string; refs: Refs; known: Worktree | null };

/** `start`: the commit to check out. `baseSha`: the commit at which the branch left its base. */
const startOf = async (
  context: GitContext,
  request: StartRequest,
): Promise<{ baseRef: string; baseSha: string | null; start: string | null }> => {
  const { repo, source = null, refs, known, cacheDir: gitDir, signal } = request;
  if (source !== null)
    return { baseRef: source.worktree.baseRef, baseSha: source.commit, start: source.commit };
  const base =
    known ??
    (repo === null
      ? { baseRef: request.baseRef, baseSha: null }
      : await resolveBase(context, { repo, baseRef: request.baseRef, refs, signal }));
  const { baseRef, baseSha } = base;
  const saved = await commitOfBranch(context, request);
  if (saved === null || known !== null || baseSha === null)
    return { baseRef, baseSha, start: saved ?? baseSha };
  return { baseRef, baseSha: await forkPoint(context, { gitDir, baseSha, saved, signal }), start: saved };
};

/** The tip that an earlier worktree gave the branch: the saved one, or the pushed one if it is newer. */
const commitOfBranch = async (context: GitContext, request: StartRequest): Promise<string | null> => {
  const { refs, cacheDir, branch, signal } = request;
  const named = (name: string): string | null => refs.find((ref) => ref.name === name)?.commit ?? null;
  const saved = named(`refs/heads/${branch}`);
  const pushed = named(`refs/remotes/origin/${branch}`);
  if (saved === null || pushed === null) return saved ?? pushed;
  return (await isAncestor(context, { gitDir: cacheDir, ancestor: saved, of: pushed, signal }))
    ? pushed
    : saved;
};

type Fork = { gitDir: string; baseSha: string; saved: string; signal: AbortSignal };

/** The commit at which an existing branch left its base. */
const forkPoint = async (context: GitContext, { gitDir, baseSha, saved, signal }: Fork): Promise<string> => {
  const args = ["merge-base", "--end-of-options", baseSha, saved];
  const found = await runGitOrNull(context, args, { variables: gitDirVariables(gitDir), signal });
  return found?.stdout.trim() ?? baseSha;
};

/** A warning when the remote has a branch `service`, beside which git takes no `service/…`. */
const branchInTheWay = (refs: Refs, branch: string): string[] => {
  const above = dirname(branch);
  if (!refs.some(({ name }) => name === `refs/remotes/origin/${above}`)) return [];
  return [
    `The remote has a branch "${above}", beside which git takes no branch "${branch}": it cannot be pushed until that one is renamed.`,
  ];
};

/**
 * Takes over what others have pushed to a worktree's branch, as last fetched: a fast-forward of a clean tree. Null: the
 * branch has all of it. Else a sentence for user and agent, and nothing is changed.
 */
const catchUp = async (
  context: GitContext,
  { owned, refs, signal }: { owned: OwnerFile; refs: Refs; signal: AbortSignal },
): Promise<string | null> => {
  const { worktree } = owned;
  const { ownDir: gitDir, branch } = worktree;
  const theirs = refs.find(({ name }) => name === `refs/remotes/origin/${branch}`)?.commit;
  if (theirs === undefined) return null;
  const { agent } = await openWorktree(context, worktree);
  const ours = agent.refs.get(branchRef(worktree));
  const has = (of: string, ancestor: string): Promise<boolean> =>
    isAncestor(context, { gitDir, ancestor, of, signal });
  if (ours !== undefined && (await has(ours, theirs))) return null;
  if (ours !== undefined && agent.on === branchRef(worktree) && (await has(theirs, ours))) {
    const state = await capture(context, { worktree, signal });
    if (await fastForward(context, { owned, state, commit: theirs, signal })) return null;
  }
  return `The branch ${branch} has commits at the remote that this worktree lacks, up to ${theirs}: merge origin/${branch} before the work is done, or the push will be refused.`;
};

type FastForward = { owned: OwnerFile; state: Captured; commit: string; signal: AbortSignal };

/** False: there are changes, or a file that git ignores is in the way. */
const fastForward = async (
  context: GitContext,
  { owned: { worktree, ...owned }, state, commit, signal }: FastForward,
): Promise<boolean> => {
  if (state.kept.length > 0 || state.isStaged || state.tree !== state.headTree) return false;
  const { links } = await specialEntries(context, { worktree, commit, signal });
  const args = ["merge", "--ff-only", "--no-overwrite-ignore", "--quiet", commit];
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: state.index };
  await writeFile(join(worktree.ownDir, "HEAD"), `${state.head}\n`);
  try {
    await runGit(context, args, { variables, cwd: worktree.path, signal });
  } catch (error) {
    if (error instanceof GitError && error.ended === "exited") return false;
    throw error;
  }
  const left = await leaveOutEscapingLinks(worktree, links);
  const leftOut = links.filter((link) => left.includes(link) || owned.leftOut.includes(link));
  await writeOwner(context, { ...owned, worktree, leftOut });
  const own = { variables: worktreeVariables(worktree), signal };
  await runGit(context, ["read-tree", "-i", "--reset", commit], own);
  const index = await indexHiding(context, { worktree, paths: leftOut, signal });
  await handOver(context, worktree, { tip: commit, index, signal });
  return true;
};

/**
 * Removes a worktree that has an owner file, and nothing else. Each step can be repeated. The owner file is removed last:
 * the next call finishes an interrupted removal.
 */
export const removeWorktree = async (
  context: GitContext,
  worktreeId: string,
  signal: AbortSignal,
): Promise<void> => {
  try {
    await removeDirectory(context, worktreeId);
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `remove the worktree ${worktreeId}`,
      signal,
    });
  }
};

const removeDirectory = async (context: GitContext, worktreeId: string): Promise<void> => {
  if ((await readOwner(context, worktreeId)) === null) return;
  // Renamed first: a half-removed directory must not look like a worktree in which files were deleted.
  const trash = join(context.settings.worktreeRoot, ".owned", `${worktreeId}.trash`);
  await removeTree(trash);
  await rename(worktreePath(context, worktreeId), trash).catch((error: unknown) => {
    if (!(error instanceof Error) || !("code" in error) || error.code !== "ENOENT") throw error;
  });
  await removeTree(trash);
  await removeTree(ownDirectory(context, worktreeId));
  await removeOwner(context, worktreeId);
};
