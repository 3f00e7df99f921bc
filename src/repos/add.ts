import { existsSync } from "node:fs";
import { lstat, mkdir, rename } from "node:fs/promises";
import { dirname, join } from "node:path";
import { removeTree } from "../lib/remove-tree.ts";
import { replaceIfDamaged } from "./cache.ts";
import { type Captured, capture } from "./capture.ts";
import { checkoutWarnings, leaveOutEscapingLinks, specialEntries } from "./checkout-care.ts";
import {
  type Refs,
  branchRef,
  bringObjects,
  emptyTree,
  hasDirectory,
  indexHiding,
  readRefs,
  remoteRefs,
  writeClone,
} from "./clone.ts";
import { attempt } from "./failure.ts";
import { type GitContext, runGit, runGitOrNull, unlessRefused } from "./git-context.ts";
import { replace, restoreGitDirectory } from "./git-directory.ts";
import { settleIndex } from "./git-index.ts";
import { importCommits } from "./import.ts";
import { compareWithRemote, tipAtRemote } from "./lease.ts";
import { fillPointers } from "./lfs-download.ts";
import { openWorktree } from "./open-worktree.ts";
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
import { isAncestor, isRefName, remoteBranches, resolveBase } from "./ref.ts";
import { type AddWorktree, RepoError, savedDirOf, type Wanted, type Worktree } from "./repos.ts";
import { remoteIds, restoreSaved } from "./saved.ts";
import { addSubmodules, movesSubmodule } from "./submodules.ts";
import { indexOf, scratchOf } from "./wall.ts";

/**
 * Makes a worktree: a clone that borrows from the cached clone, with a new branch from the branch or tag `baseRef`; empty:
 * SERVICE_BASE_REF, else the remote's default branch. An existing one of this id is reused, also another instance's that the
 * caller knows to be lost: what others have pushed is taken over where that is a fast-forward, else `behind` says so. Where its
 * directory is missing, it is made again from its branch as saved or pushed. @throws RepoError `worktree_failed`
 */
export const addWorktree = async (context: GitContext, request: AddWorktree): Promise<Worktree> => {
  const { wanted = nothing } = request;
  const worktree = await addOwn(context, request);
  if (wanted.lfs) await fillPointers(context, worktree);
  return wanted.submodules === false
    ? worktree
    : await addSubmodules(context, worktree, { isRecursive: wanted.submodules === "recursive" });
};

const nothing: Wanted = { submodules: false, lfs: false };

const addOwn = async (context: GitContext, request: AddWorktree): Promise<Worktree> => {
  const { repo, worktreeId, branch } = request;
  return attempt(context, "worktree_failed", `make the worktree ${worktreeId}`, async () => {
    if (!isWorktreeId(worktreeId)) throw new Error(`"${worktreeId}" is no worktree id`);
    if (!isRefName(branch)) throw new Error(`"${branch}" is no branch name`);
    await mkdir(context.settings.worktreeRoot, { recursive: true, mode: 0o700 });
    const existing = await readOwner(context, worktreeId);
    if (existing !== null && existing.worktree.repoKey !== (repo?.key ?? null))
      throw new Error(`it exists already, for ${existing.worktree.repoUrl || "jobs without a repository"}`);
    if (existing?.ready !== true || !(await hasDirectory(existing.worktree)))
      return makeOrRepair(context, request, existing);
    const renewed = await renew(context, existing, request);
    return catchUp(context, renewed);
  });
};

/** Readies an existing worktree for its next agent, whose run has other limits, and perhaps another base. */
const renew = async (context: GitContext, existing: OwnerFile, request: AddWorktree): Promise<OwnerFile> => {
  const limits = request.wanted?.limits;
  const worktree = { ...existing.worktree, ...(await otherBase(context, existing, request)), limits };
  const { ownDir, gitDir, baseSha: tip } = worktree;
  if ((await lstat(gitDir).catch(() => null))?.isDirectory() === true) {
    const { agent } = await openWorktree(context, worktree);
    await writeClone(context, worktree, { agent });
  } else {
    await openWorktree(context, worktree, { filesOnly: true });
    await runGit(context, worktree, ["read-tree", "-i", "--reset", tip ?? emptyTree]);
    await writeClone(context, worktree, { agent: null, tip, index: indexOf(ownDir) });
  }
  const renewed = { ...existing, worktree };
  const isSame = JSON.stringify(worktree) === JSON.stringify(existing.worktree);
  if (!isSame || existing.instance !== context.settings.podName) await writeOwner(context, renewed);
  return renewed;
};

/** The base that a follow-up names in place of the worktree's, and the commit at which the branch leaves it; else nothing. */
const otherBase = async (context: GitContext, { worktree }: OwnerFile, { repo, baseRef }: AddWorktree) => {
  if (repo === null || baseRef === "" || baseRef === worktree.baseRef) return {};
  const { ownDir: gitDir, cacheDir } = worktree;
  const refs = await readRefs(cacheDir, remoteRefs);
  const base = await resolveBase(context, { url: repo.url, baseRef, refs, gitDir: cacheDir });
  const { agent } = await openWorktree(context, worktree);
  const tip = agent.refs.get(branchRef(worktree)) ?? null;
  if (tip !== null) await importCommits(context, worktree, [tip]);
  return { ...base, baseSha: await forkOf(context, gitDir, { baseSha: base.baseSha, tip }) };
};

/** The commit at which a branch leaves its base: their newest common one. */
const forkOf = async (
  context: GitContext,
  gitDir: string,
  { baseSha, tip }: { baseSha: string | null; tip: string | null },
): Promise<string | null> => {
  if (baseSha === null || tip === null) return baseSha;
  const fork = await runGitOrNull(context, gitDir, ["merge-base", "--end-of-options", baseSha, tip]);
  return fork?.stdout.trim() ?? baseSha;
};

const makeOrRepair = async (context: GitContext, request: AddWorktree, existing: OwnerFile | null) => {
  const { repo, worktreeId } = request;
  const { path } = locate(context, worktreeId, null);
  if (existing === null && (await lstat(path).catch(() => null)) !== null)
    throw new Error(`${path} exists and is not the service's; move it away`);
  if (existing !== null) await removeDirectory(context, worktreeId);
  try {
    return await make(context, request, existing);
  } catch (error) {
    const mended = repo === null ? [] : await replaceIfDamaged(context, repo, error);
    // The caller needs the first error. The next try removes what this removal leaves.
    if (mended.length === 0) await removeDirectory(context, worktreeId).catch(() => undefined);
    if (mended.length === 0) throw error;
    await removeDirectory(context, worktreeId);
    const worktree = await make(context, request, existing);
    return { ...worktree, warnings: [...mended, ...worktree.warnings] };
  }
};

const make = async (context: GitContext, request: AddWorktree, existing: OwnerFile | null) => {
  const { repo, worktreeId, branch } = request;
  const [repoKey, repoUrl] = repo === null ? [null, ""] : [repo.key, repo.url];
  const paths = locate(context, worktreeId, repoKey);
  const { saved, refs } = await readSaved(context, { ...paths, url: repoUrl, branch });
  const known = existing?.ready === true ? existing.worktree : null;
  if (request.mustBeNew === true && existing === null) requireNew(refs, request);
  const { start, ...base } = await startOf(context, request, { refs, known, saved });
  const facts = { repoUrl, repoKey, branch, ...base, limits: request.wanted?.limits };
  const worktree: Worktree = { worktreeId, ...paths, ...facts, warnings: [] };
  const owned = { worktree, leftOut: [], source: request.source?.worktree.worktreeId ?? null };
  await writeOwner(context, { ...owned, ready: false });
  await mkdir(paths.path);
  await openWorktree(context, worktree);
  const leftOut = start === null ? [] : await checkOut(context, worktree, { start, saved, request });
  worktree.warnings.push(...branchInTheWay(refs, branch));
  if (known === null && !["", base.baseRef].includes(request.baseRef))
    worktree.warnings.push(
      `The base "${request.baseRef}" is no longer at the remote: the work goes to ${base.baseRef}, its default branch.`,
    );
  const index = await indexHiding(context, worktree, leftOut);
  await writeClone(context, worktree, { agent: null, tip: start, index });
  await writeOwner(context, { ...owned, leftOut, ready: true });
  // One whose branch was pushed before is made from what was saved of it, which the remote's may not be a part of.
  const made = owned.source === null ? await readOwner(context, worktreeId) : null;
  return made === null ? worktree : catchUp(context, made);
};

/** A ref is a file: `a/b` cannot be beside `a`. */
const requireNew = (refs: Refs, { branch, baseRef, repo }: AddWorktree): void => {
  const taken = Array.from(refs.keys(), (name) => name.replace(/^refs\/(remotes\/origin|heads)\//, ""));
  const other = [...taken, baseRef].find(
    (name) => `${name}/`.startsWith(`${branch}/`) || branch.startsWith(`${name}/`),
  );
  if (other === undefined) return;
  const where = other === baseRef ? "is the base" : `exists already in ${repo?.url ?? "an earlier job"}`;
  const message = `The branch "${branch}" cannot be made: "${other}" ${where}.\nWhat to do: Choose another name for options.branch.`;
  throw new RepoError("worktree_failed", message);
};

/** The refs of the remote, and the branch as it was saved. `saved`: the git directory that has both. */
const readSaved = async (
  context: GitContext,
  { cacheDir, url, branch }: { cacheDir: string; url: string; branch: string },
): Promise<{ saved: string; refs: Refs }> => {
  const saved = existsSync(savedDirOf(cacheDir)) ? savedDirOf(cacheDir) : cacheDir;
  if (saved !== cacheDir) await restoreSaved(context, cacheDir, url);
  const own = await readRefs(saved, [`refs/heads/${branch}`]);
  return { saved, refs: new Map([...(await readRefs(cacheDir, remoteRefs)), ...own]) };
};

/** Checks out the files and adds to the worktree's warnings. Resolves to the links that were left out. */
const checkOut = async (
  context: GitContext,
  worktree: Worktree,
  { start, saved, request }: { start: string; saved: string; request: AddWorktree },
): Promise<string[]> => {
  const { source, wanted = nothing } = request;
  const without = await remoteIds(worktree.cacheDir);
  const lacking = [start, worktree.baseSha].filter((id) => id !== null && !without.has(id)) as string[];
  const where = source?.worktree.ownDir ?? saved;
  await bringObjects(context, lacking, { where, without, into: worktree.ownDir });
  const special = await specialEntries(context, { gitDir: worktree.ownDir, url: worktree.repoUrl }, start);
  await runGit(context, worktree, ["read-tree", "--reset", "-u", start]);
  if (special.attributes.length > 0) await settleIndex(context, worktree);
  const leftOut = await leaveOutEscapingLinks(worktree, special.links);
  worktree.warnings.push(...(await checkoutWarnings(worktree, special, { leftOut, wanted })));
  return leftOut;
};

type Start = { refs: Refs; known: Worktree | null; saved: string };

/** `start`: the commit to check out. `baseSha`: the commit at which the branch left its base. */
const startOf = async (
  context: GitContext,
  { repo, source = null, branch, baseRef: asked }: AddWorktree,
  { refs, known, saved }: Start,
): Promise<{ baseRef: string; baseSha: string | null; start: string | null }> => {
  if (source !== null)
    return { baseRef: source.worktree.baseRef, baseSha: source.commit, start: source.commit };
  const tip = await tipOfBranch(context, saved, { refs, branch });
  if (known !== null) return { baseRef: known.baseRef, baseSha: known.baseSha, start: tip ?? known.baseSha };
  if (repo === null) return { baseRef: asked, baseSha: null, start: tip };
  const wanted = { url: repo.url, baseRef: asked, refs, gitDir: saved, mayBeGone: tip !== null };
  const { baseRef, baseSha } = await resolveBase(context, wanted);
  return { baseRef, baseSha: await forkOf(context, saved, { baseSha, tip }), start: tip ?? baseSha };
};

/** The tip that an earlier worktree gave the branch: the saved one, or the pushed one if it is newer. */
const tipOfBranch = async (
  context: GitContext,
  gitDir: string,
  { refs, branch }: { refs: Refs; branch: string },
): Promise<string | null> => {
  const saved = refs.get(`refs/heads/${branch}`) ?? null;
  const pushed = refs.get(`${remoteBranches}${branch}`) ?? null;
  if (saved === null || pushed === null) return saved ?? pushed;
  return (await isAncestor(context, gitDir, { ancestor: saved, of: pushed })) ? pushed : saved;
};

/** A warning when the remote has a branch `service`, beside which git takes no `service/…`. */
const branchInTheWay = (refs: Refs, branch: string): string[] => {
  const above = dirname(branch);
  if (!refs.has(`${remoteBranches}${above}`)) return [];
  return [
    `The remote has a branch "${above}", beside which git takes no branch "${branch}": it cannot be pushed until that one is renamed.`,
  ];
};

/**
 * Takes over what others have pushed to a worktree's branch into a clean tree: a fast-forward, or a rewritten branch over one
 * that was pushed as it is. Else nothing is changed, and `behind` tells user and agent. `atRemote` tells what the remote has.
 */
const catchUp = async (context: GitContext, owned: OwnerFile): Promise<Worktree> => {
  const { worktree, pushed } = owned;
  const { ownDir, branch } = worktree;
  const theirs = await tipAtRemote(worktree);
  if (theirs === null) return pushed === null ? worktree : { ...worktree, atRemote: goneAtRemote(branch) };
  const caughtUp = { ...worktree, atRemote: hasAtRemote(branch, theirs) };
  const { agent } = await openWorktree(context, worktree);
  const ours = agent.refs.get(branchRef(worktree));
  if (ours !== undefined) {
    await importCommits(context, worktree, [ours]);
    if (await isAncestor(context, ownDir, { ancestor: theirs, of: ours })) return caughtUp;
    const { lost } = await compareWithRemote(context, worktree, { tip: ours, theirs });
    const isOlder = ours === pushed || (await isAncestor(context, ownDir, { ancestor: ours, of: theirs }));
    if (isOlder && agent.on === branchRef(worktree)) {
      const state = await capture(context, worktree);
      if (await takeOver(context, { owned, state, commit: theirs })) return caughtUp;
    } else if (lost.length === 0) return caughtUp;
  }
  const behind = `The branch ${branch} has commits at the remote that this worktree lacks, up to ${theirs}: merge origin/${branch}, or rebase onto it, before the work is done, or the push will be refused.`;
  return { ...worktree, behind, warnings: [behind, ...worktree.warnings] };
};

const hasAtRemote = (branch: string, tip: string): string =>
  `The remote has the branch ${branch} up to ${tip}. You may rewrite commits of yours there (amend, squash, rebase); commits of others must stay.`;

const goneAtRemote = (branch: string): string =>
  `The remote has no branch ${branch} any more: it was merged or deleted. What you commit is pushed as a new one.`;

/** False: there are changes, or a file that git ignores is in the way. */
const takeOver = async (
  context: GitContext,
  { owned, state, commit }: { owned: OwnerFile; state: Captured; commit: string },
): Promise<boolean> => {
  const { worktree } = owned;
  const { path, ownDir } = worktree;
  const { agent, head, index } = state;
  if (state.kept.length > 0 || state.isStaged || state.tree !== state.headTree) return false;
  const checked = { gitDir: ownDir, url: worktree.repoUrl };
  const { links, submodules } = await specialEntries(context, checked, commit);
  if (await movesSubmodule(worktree, submodules)) return false;
  // A checkout writes into its git directory, which is therefore one behind the wall.
  const steered = join(scratchOf(ownDir), "checkout");
  await removeTree(steered);
  await restoreGitDirectory(context, steered, { url: "", bare: false });
  await replace(join(steered, "HEAD"), `${head}\n`);
  const args = ["checkout", "--no-overwrite-ignore", "--quiet", "--detach", commit];
  const switched = await unlessRefused(runGit(context, { path, ownDir, index, steered }, args), () => null);
  if (switched === null) return false;
  const left = await leaveOutEscapingLinks(worktree, links);
  const leftOut = links.filter((link) => left.includes(link) || owned.leftOut.includes(link));
  await writeOwner(context, { ...owned, leftOut, pushed: commit });
  await runGit(context, worktree, ["read-tree", "-i", "--reset", commit]);
  const hiding = await indexHiding(context, worktree, leftOut);
  await writeClone(context, worktree, { agent, tip: commit, index: hiding });
  return true;
};

/** Removes a worktree of the service, whose work the caller has saved. It can be repeated: the owner file goes last. */
export const removeWorktree = (context: GitContext, worktreeId: string): Promise<void> =>
  attempt(context, "worktree_failed", `remove the worktree ${worktreeId}`, () =>
    removeDirectory(context, worktreeId),
  );

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
