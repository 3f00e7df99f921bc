import { access, mkdir, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fetchOptions } from "./cache.ts";
import { type Captured, capture, captureOrReason, readWhole, unsavedCommits } from "./capture.ts";
import { branchRef, cachedRefs, emptyTree, handOver, hasDirectory, worktreeVariables } from "./clone.ts";
import { asRepoError } from "./failure.ts";
import { type GitContext, gitDirVariables, runGit, serverOptions } from "./git-context.ts";
import { canonicalConfig, makeGitDirectory, restoreGitDirectory, withoutLeftovers } from "./git-directory.ts";
import { isWorktreeId, readOwner, writeOwner } from "./owner-file.ts";
import { commitOf } from "./ref.ts";
import { RepoError, type Saved, type Worktree, type WorktreeState, salvageRef } from "./repos.ts";
import { withRepositoryLock } from "./repository-lock.ts";

type Target = { worktree: Worktree; signal: AbortSignal };

/** See the port. */
export const inspectWorktree = async (
  context: GitContext,
  { worktree, signal }: Target,
): Promise<WorktreeState> => {
  if (!(await hasDirectory(worktree)))
    throw new RepoError(
      "worktree_failed",
      `The directory ${worktree.path} was deleted, and its clone with it`,
    );
  const { baseSha } = worktree;
  const { agent, head, headTree, tip, tree, kept } = await capture(context, { worktree, signal });
  await noteKept(context, worktree, kept);
  const without = baseSha === null ? [] : [baseSha];
  const ahead = head === null ? 0 : await countCommits(context, { worktree, of: [head], without, signal });
  const diffStat = await diffFromBase(context, { worktree, tree, signal });
  const unsaved = await unsavedCommits(context, { worktree, agent, signal });
  const hasOtherCommits = unsaved.some((commit) => commit !== head && commit !== tip);
  return { dirty: tree !== headTree || head !== tip, head, ahead, diffStat, kept, hasOtherCommits };
};

/**
 * Commits everything to the worktree's own branch, also commits that the agent made on another one: the branch then has
 * the files as they are and both histories. Resolves to its tip; empty: there is no commit.
 */
export const commitAll = async (
  context: GitContext,
  { worktree, message, signal }: Target & { message: string },
): Promise<string> => {
  try {
    return await commit(context, { worktree, message, signal });
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `commit what is in the worktree ${worktree.path}`,
      signal,
    });
  }
};

const commit = async (
  context: GitContext,
  { worktree, message, signal }: Target & { message: string },
): Promise<string> => {
  const state = await capture(context, { worktree, signal });
  const tip = await commitOfState(context, { worktree, state, message, signal });
  if (tip === null) return "";
  const { index } = state;
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: index };
  // The agent checked out an older commit and changed nothing: the files follow the branch again.
  if (tip === state.tip && tip !== state.head)
    await runGit(context, ["read-tree", "--reset", "-u", tip], { variables, cwd: worktree.path, signal });
  await handOver(context, worktree, { tip, index, signal });
  return tip;
};

type Saving = Target & { state: Captured; message: string };

/** A commit of the state with head and branch as parents, or an existing commit that has all of it. */
const commitOfState = async (
  context: GitContext,
  { worktree, state, message, signal }: Saving,
): Promise<string | null> => {
  const { head, headTree, tree, tip } = state;
  const isClean = tree === headTree;
  if (head === null && isClean) return tip;
  const candidates = [head, tip].filter((sha) => sha !== null);
  const parents = await independent(context, { worktree, commits: [...new Set(candidates)], signal });
  const [only] = parents;
  if (isClean && parents.length === 1 && only !== undefined) return only;
  return writeCommit(context, { worktree, tree, parents, message, signal });
};

/** The commits that are no ancestor of another, in the same order. */
const independent = async (
  context: GitContext,
  { worktree, commits, signal }: Target & { commits: string[] },
): Promise<string[]> => {
  if (commits.length < 2) return commits;
  const call = { variables: worktreeVariables(worktree), signal };
  const { stdout } = await runGit(context, ["merge-base", "--independent", ...commits], call);
  const found = new Set(stdout.split("\n"));
  return commits.filter((commit) => found.has(commit));
};

/** See the port. The ref's previous commit becomes a parent of the new one. */
export const salvage = async (
  context: GitContext,
  { worktree, name, signal }: Target & { name: string },
): Promise<Saved> => {
  try {
    if (!isWorktreeId(name)) throw new Error(`"${name}" is no name of a salvage ref`);
    if (!(await hasDirectory(worktree))) return { ref: null, kept: [] };
    const saved = await save(context, { worktree, name, signal });
    await noteKept(context, worktree, saved.kept);
    return saved;
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `save what is in the worktree ${worktree.path}`,
      signal,
    });
  }
};

/** Lists read it from the owner file. */
const noteKept = async (context: GitContext, { worktreeId }: Worktree, kept: string[]): Promise<void> => {
  const owned = await readOwner(context, worktreeId);
  if (owned !== null && owned.kept.join() !== kept.join()) await writeOwner(context, { ...owned, kept });
};

const save = async (
  context: GitContext,
  { worktree, name, signal }: Target & { name: string },
): Promise<Saved> => {
  const ref = salvageRef(name);
  const message = `Unfinished work of job ${name}`;
  const state = await captureOrReason(context, { worktree, signal });
  if (typeof state === "string") return { ref: null, kept: [state] };
  const { agent, kept, tree, headTree, tip } = state;
  const unsaved = await unsavedCommits(context, { worktree, agent, signal });
  if (tree === headTree && unsaved.length === 0) return { ref: null, kept };
  const before = await savedBefore(context, { worktree, ref, unsaved, signal });
  if (before !== null && before.tree === tree && before.hasAll) return { ref, kept };
  const others = before === null ? unsaved : [...unsaved, before.commit];
  const commit = await commitOfAll(context, { worktree, state, others, message, signal });
  const branch = tip !== null && unsaved.length > 0 ? { [branchRef(worktree)]: tip } : {};
  await copyIntoCache(context, { worktree, refs: { [ref]: commit, ...branch }, signal });
  return { ref, kept };
};

/** A commit of the state with head and all others as parents, or the head itself if it has all of it. */
const commitOfAll = async (
  context: GitContext,
  { worktree, state, others, message, signal }: Saving & { others: string[] },
): Promise<string> => {
  const { head, tree, headTree } = state;
  const all = head === null ? others : [head, ...others];
  const parents = await independent(context, { worktree, commits: [...new Set(all)], signal });
  const isHead = parents.length === 1 && parents[0] === head && tree === headTree;
  return isHead && head !== null ? head : writeCommit(context, { worktree, tree, parents, message, signal });
};

/** The commit already saved under the ref. `hasAll`: it has every unsaved commit. */
const savedBefore = async (
  context: GitContext,
  { worktree, ref, unsaved, signal }: Target & { ref: string; unsaved: string[] },
): Promise<{ commit: string; tree: string; hasAll: boolean } | null> => {
  const { cacheDir } = worktree;
  const commit = await commitOf(context, { gitDir: cacheDir, name: ref, signal }).catch(() => null);
  if (commit === null) return null;
  const call = { variables: worktreeVariables(worktree), signal };
  const { stdout } = await runGit(context, ["rev-parse", `${commit}^{tree}`], call);
  const left = await countCommits(context, { worktree, of: unsaved, without: [commit], signal });
  return { commit, tree: stdout.trim(), hasAll: left === 0 };
};

/** See the port. */
export const saveBranch = async (context: GitContext, { worktree, signal }: Target): Promise<void> => {
  const ref = branchRef(worktree);
  const tip = (await readWhole(context, { worktree, signal })).agent.refs.get(ref);
  if (tip !== undefined) await copyIntoCache(context, { worktree, refs: { [ref]: tip }, signal });
};

/** See the port. */
export const unsavable = async (context: GitContext, target: Target): Promise<string[]> => {
  const state = await captureOrReason(context, target);
  return typeof state === "string" ? [state] : state.kept;
};

/** The state of a worktree as a commit of its clone, for a throwaway worktree. */
export const captureCommit = async (
  context: GitContext,
  { worktree, signal }: Target,
): Promise<string | null> => {
  const state = await capture(context, { worktree, signal });
  const { head, tree, headTree } = state;
  if (tree === headTree) return head;
  const parents = head === null ? [] : [head];
  return writeCommit(context, { worktree, tree, parents, message: "State to look at", signal });
};

/** Paths that changed since the base, or the number of commits that change none. */
export const changesSinceBase = async (
  context: GitContext,
  { worktree, signal }: Target,
): Promise<string[]> => {
  const { baseSha } = worktree;
  const { head, tip, tree, kept } = await capture(context, { worktree, signal });
  const from = baseSha === null ? emptyTree : baseSha;
  const { stdout } = await diffTree(context, { worktree, from, to: tree, format: "--name-only", signal });
  const paths = stdout.split("\0").filter((path) => path !== "");
  if (paths.length > 0 || kept.length > 0) return [...paths, ...kept];
  const of = [...new Set([head, tip].filter((commit) => commit !== null))];
  const without = baseSha === null ? [] : [baseSha];
  const commits = await countCommits(context, { worktree, of, without, signal });
  if (commits === 0) return [];
  return [commits === 1 ? "1 commit" : `${commits} commits`];
};

const writeCommit = async (
  context: GitContext,
  { worktree, tree, parents, message, signal }: Target & { tree: string; parents: string[]; message: string },
): Promise<string> => {
  const { gitAuthorName: name, gitAuthorEmail: email } = context.settings;
  const author = { GIT_AUTHOR_NAME: name, GIT_AUTHOR_EMAIL: email };
  const committer = { GIT_COMMITTER_NAME: name, GIT_COMMITTER_EMAIL: email };
  const args = ["commit-tree", ...parents.flatMap((parent) => ["-p", parent]), tree];
  const variables = { ...worktreeVariables(worktree), ...author, ...committer };
  const { stdout } = await runGit(context, args, { variables, input: `${message.trimEnd()}\n`, signal });
  return stdout.trim();
};

/** How many ancestors `of` have that `without` do not. */
const countCommits = async (
  context: GitContext,
  { worktree, of, without, signal }: Target & { of: string[]; without: string[] },
): Promise<number> => {
  if (of.length === 0) return 0;
  const { stdout } = await runGit(context, ["rev-list", "--count", ...of, "--not", ...without], {
    variables: worktreeVariables(worktree),
    signal,
  });
  return Number(stdout);
};

const diffFromBase = async (
  context: GitContext,
  { worktree, tree, signal }: Target & { tree: string },
): Promise<WorktreeState["diffStat"]> => {
  const from = worktree.baseSha ?? emptyTree;
  const { stdout } = await diffTree(context, { worktree, from, to: tree, signal, format: "--numstat" });
  const total = { files: 0, insertions: 0, deletions: 0 };
  for (const line of stdout.split("\0").filter((text) => text !== "")) {
    const [insertions = "", deletions = ""] = line.split("\t");
    total.files += 1;
    // Binary files have dashes instead of numbers.
    total.insertions += Number.parseInt(insertions, 10) || 0;
    total.deletions += Number.parseInt(deletions, 10) || 0;
  }
  return total;
};

const diffTree = (
  context: GitContext,
  { worktree, from, to, signal, format }: Target & { from: string; to: string; format: string },
): Promise<{ stdout: string }> => {
  const args = ["diff-tree", "-r", "-z", "--no-renames", "--no-ext-diff", "--no-textconv", format, from, to];
  return runGit(context, args, {
    variables: worktreeVariables(worktree),
    maxOutputBytes: 256 * 1024 * 1024,
    signal,
  });
};

/**
 * Copies commits of a worktree into the cached clone, where they outlive the worktree. Takes the lock, overwrites the
 * refs, and reads them back.
 */
const copyIntoCache = async (
  context: GitContext,
  { worktree, refs, signal }: { worktree: Worktree; refs: Record<string, string>; signal: AbortSignal },
): Promise<void> => {
  const { repoKey: key, repoUrl: url, cacheDir } = worktree;
  const wanted = Object.entries(refs);
  if (wanted.length === 0) return;
  const locked = { key, url, reason: "worktree_failed" as const, signal };
  await withRepositoryLock(context, locked, async ({ lockFd, lost, signal: until }) => {
    const config = canonicalConfig(context.settings, { url: url || null, bare: true });
    if (key === null && !(await exists(cacheDir)))
      await makeGitDirectory(cacheDir, { config, head: "refs/heads/main" });
    await restoreGitDirectory(cacheDir, { config, head: "refs/heads/main" });
    const server = serverOptions(worktree.ownDir, "upload-pack");
    const refspecs = wanted.map(([ref, commit]) => `+${commit}:${ref}`);
    const args = ["fetch", ...fetchOptions, ...server, "--", worktree.ownDir, ...refspecs];
    const variables = { GIT_ALLOW_PROTOCOL: "file", ...gitDirVariables(cacheDir) };
    await withoutLeftovers(cacheDir, lost, () =>
      runGit(context, args, { variables, inheritFd: lockFd, signal: until }),
    );
    const found = await cachedRefs(context, { cacheDir, names: Object.keys(refs), signal: until });
    const lacking = wanted.filter(
      ([ref, commit]) => !found.some(({ name, sha }) => name === ref && sha === commit),
    );
    if (lacking.length === 0) return noteTime(cacheDir, Object.keys(refs));
    const names = lacking.map(([ref]) => ref).join(" and ");
    throw new RepoError("worktree_failed", `git did not write ${names} into the cached clone ${cacheDir}`);
  });
};

/** The time of saving is that of the ref's log, which git deletes with the ref: the date of a commit is the agent's. */
const noteTime = async (cacheDir: string, refs: string[]): Promise<void> => {
  for (const log of refs.map((ref) => join(cacheDir, "logs", ref))) {
    await mkdir(dirname(log), { recursive: true });
    await writeFile(log, "", { flag: "a" });
    await utimes(log, new Date(), new Date());
  }
};

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
