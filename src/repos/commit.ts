import { type How, capture, readWhole, unsavedCommits } from "./capture.ts";
import { GitError } from "../lib/git.ts";
import {
  branchRef,
  bringObjects,
  emptyTree,
  hasDirectory,
  readRefs,
  remoteRefs,
  requireDirectory,
  writeClone,
} from "./clone.ts";
import { changedFiles } from "./diff.ts";
import { attempt, reasonOf } from "./failure.ts";
import { runGit, runGitOrNull, type GitContext } from "./git-context.ts";
import { listFiles, settleIndex } from "./git-index.ts";
import { objectsAt } from "./git-objects.ts";
import { importCommits } from "./import.ts";
import { openWorktree } from "./open-worktree.ts";
import { tipAtRemote } from "./lease.ts";
import { isWorktreeId, readOwner, writeOwner } from "./owner-file.ts";
import { pathList, pathText } from "./path-bytes.ts";
import { remoteBranches } from "./ref.ts";
import { RepoError, type Saved, type Worktree, type WorktreeState, salvageRef, savedDirOf } from "./repos.ts";
import { remoteIds, saveRefs } from "./saved.ts";
import { signedBy } from "./signing.ts";

/** What the worktree has beyond its base. Its directory must exist. */
export const inspectWorktree = async (context: GitContext, worktree: Worktree): Promise<WorktreeState> => {
  await requireDirectory(worktree);
  const { baseSha, baseRef, ownDir, cacheDir } = worktree;
  const { agent, head, headTree, tip, tree, kept } = await capture(context, worktree);
  await noteKept(context, worktree, kept);
  const files = await changedFiles(context, ownDir, { from: baseSha ?? emptyTree, to: tree });
  const sum = (lines: "insertions" | "deletions") => files.reduce((all, file) => all + file[lines], 0);
  const diffStat = { files: files.length, insertions: sum("insertions"), deletions: sum("deletions") };
  const own = [...new Set([head, tip])].filter((commit) => commit !== null);
  // The agent may have started over on a newer base.
  const newer = (await readRefs(cacheDir, remoteRefs)).get(`${remoteBranches}${baseRef}`);
  const bases = [baseSha ?? [], newer ?? []].flat();
  const count =
    own.length === 0 ? "0" : await inOwn(context, worktree, "rev-list", "--count", ...own, "--not", ...bases);
  const unsaved = await unsavedCommits(context, worktree, { agent });
  const hasOtherCommits = unsaved.some((commit) => commit !== head && commit !== tip);
  const dirty = tree !== headTree || head !== tip;
  const paths = files.map(({ path }) => pathText(path));
  return { dirty, head, ahead: Number(count), diffStat, paths, kept, hasOtherCommits };
};

const inOwn = async (context: GitContext, { ownDir }: Worktree, ...args: string[]): Promise<string> =>
  (await runGit(context, ownDir, args)).stdout.trim();

/**
 * Commits everything to the worktree's own branch, also commits that the agent made on another one: the branch then has
 * the files as they are and both histories. Resolves to its tip; empty: there is no commit.
 */
export const commitAll = (context: GitContext, worktree: Worktree, message: string): Promise<string> =>
  attempt(context, "worktree_failed", `commit what is in the worktree ${worktree.path}`, async () => {
    const { agent, index, head, headTree, tree, tip: before, restored } = await capture(context, worktree);
    const parents = await independent(context, worktree, [head, before]);
    // The agent may have checked out an older commit and changed nothing: the files follow the branch again.
    const isOlder = tree === headTree && head !== before && parents.length === 1 && parents[0] === before;
    const tip = isOlder
      ? before
      : await commitOver(context, worktree, { tree, parents, message, isSigned: true });
    if (tip === null) return "";
    if (isOlder) await runGit(context, { ...worktree, index }, ["read-tree", "--reset", "-u", tip]);
    // The agent's own git must not find them changed.
    if (restored.length > 0) await settleIndex(context, { ...worktree, index }, isOlder ? [] : restored);
    await writeClone(context, worktree, { agent, tip, index });
    return tip;
  });

/**
 * Gives the worktree the files of a commit, and its branch the commit `tip`; another one is checked out on no branch. Ignored
 * files stay. `from`: the commit that may be checked out there. Resolves to the paths that differed.
 */
export const checkOutCommit = (
  context: GitContext,
  worktree: Worktree,
  { commit, tip, from }: { commit: string; tip: string; from?: string | undefined },
): Promise<string[]> =>
  attempt(context, "worktree_failed", `check out ${commit} in the worktree ${worktree.path}`, async () => {
    if (from !== undefined) {
      // From commit to commit: what only one of them ignores is not taken for what was added to it.
      await openWorktree(context, worktree);
      await runGit(context, worktree, ["read-tree", "-i", "--reset", from]);
      await runGit(context, worktree, ["read-tree", "--reset", "-u", commit]);
    }
    const { agent, index, tree, restored } = await capture(context, worktree);
    const changed = await changedFiles(context, worktree.ownDir, { from: commit, to: tree });
    await runGit(context, { ...worktree, index }, ["read-tree", "--reset", "-u", commit]);
    if (restored.length > 0) await settleIndex(context, { ...worktree, index });
    await writeClone(context, worktree, { agent, tip, index, ...(commit !== tip && { head: commit }) });
    return changed.map(({ path }) => pathText(path));
  });

/** The text of a file of the commit that the work began with; null: it has none. @throws RepoError when it is too large */
export const fileAtBase = async (
  context: GitContext,
  { ownDir, baseSha }: Worktree,
  { path, maxBytes }: { path: string; maxBytes: number },
): Promise<string | null> => {
  const name = `${baseSha}:${path}`;
  const [found] = baseSha === null ? [] : await objectsAt(context, ownDir, [name]);
  if (found?.type !== "blob") return null;
  if (found.size > maxBytes)
    throw new RepoError("worktree_failed", `${path} of ${baseSha} has more than ${maxBytes} bytes`);
  return (await runGit(context, ownDir, ["cat-file", "blob", name])).stdout;
};

/** Those of the paths at which the commit that the work began with has something. */
export const pathsAtBase = async (
  context: GitContext,
  { ownDir, baseSha }: Worktree,
  paths: readonly string[],
): Promise<string[]> => {
  const names = baseSha === null ? [] : paths.map((path) => `${baseSha}:${path}`);
  const found = await objectsAt(context, ownDir, names);
  return paths.filter((_, nth) => found[nth]);
};

/** A path of the base, or of the branch at the remote, that has all lines of one of the texts, or such a name; null: none has. */
export const pathWith = async (context: GitContext, worktree: Worktree, texts: readonly string[][]) => {
  const { ownDir, baseSha } = worktree;
  const short = texts.filter(({ length }) => length === 1).flat();
  const long = texts.filter(({ length }) => length > 1);
  const searches = [{ lines: short, how: [] }, ...long.map((lines) => ({ lines, how: ["--all-match"] }))];
  for (const commit of new Set([baseSha, await tipAtRemote(worktree)])) {
    if (commit === null || texts.length === 0) continue;
    const listed = await runGit(context, ownDir, ["ls-tree", "-r", "-z", "--name-only", commit]);
    const named = listed.stdout.split("\0").find((path) => short.some((text) => path.includes(text)));
    if (named !== undefined) return named;
    for (const { lines, how } of searches) {
      const args = ["grep", "--text", "--fixed-strings", "--name-only", "-z", ...how, "-f", "-", commit];
      const input = lines.map((line) => `${line}\n`).join("");
      const [first] = (await runGitOrNull(context, ownDir, args, { input }))?.stdout.split("\0") ?? [];
      if (first !== undefined) return first.slice(commit.length + 1);
    }
  }
  return null;
};

/** Gives files of the worktree the content that the checked out commit has. Resolves to those that it has. Paths are bytes. */
export const restoreFiles = async (context: GitContext, worktree: Worktree, paths: readonly string[]) => {
  const { agent } = await openWorktree(context, worktree);
  await runGit(context, worktree, ["read-tree", "-i", "--reset", agent.head ?? emptyTree]);
  const tracked = new Set(await listFiles(context, worktree));
  const restored = paths.filter((path) => tracked.has(path));
  const input = pathList(restored);
  await runGit(context, worktree, ["checkout-index", "--force", "-z", "--stdin"], { input });
  return restored;
};

/** Most commits that one command gets as arguments. */
const mostArguments = 1000;

/** The commits that are no ancestor of another, in the same order; of very many, all. */
const independent = async (context: GitContext, worktree: Worktree, given: (string | null)[]) => {
  const commits = [...new Set(given)].filter((commit) => commit !== null);
  if (commits.length < 2 || commits.length > mostArguments) return commits;
  const found = (await inOwn(context, worktree, "merge-base", "--independent", ...commits)).split("\n");
  return commits.filter((commit) => found.includes(commit));
};

type Content = { tree: string; parents: string[]; message: string; isSigned?: boolean };

/** A commit with this tree and all parents, or the only parent if it has the tree. Null: there is nothing at all. */
const commitOver = async (
  context: GitContext,
  worktree: Worktree,
  { tree, parents, message, isSigned = false }: Content,
): Promise<string | null> => {
  if (parents.length > mostArguments) {
    // Commits in between take over the first parents.
    const [some, rest] = [parents.slice(0, mostArguments), parents.slice(mostArguments)];
    const between = await commitOver(context, worktree, { tree, parents: some, message });
    const all = [...(between === null ? [] : [between]), ...rest];
    return commitOver(context, worktree, { tree, parents: all, message, isSigned });
  }
  const [only] = parents;
  if (only === undefined && tree === emptyTree) return null;
  if (only !== undefined && parents.length === 1)
    if ((await inOwn(context, worktree, "rev-parse", `${only}^{tree}`)) === tree) return only;
  const { gitAuthorName: name, gitAuthorEmail: email, gitSigningKey } = context.settings;
  // Saved work is not: a key that fails must not keep it from being saved.
  const config = isSigned ? signedBy(gitSigningKey) : [];
  const variables = {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: email,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: email,
  };
  const sign = config.length > 0 ? ["-S"] : [];
  const args = ["commit-tree", ...sign, ...parents.flatMap((parent) => ["-p", parent]), tree];
  const written = { variables, config, input: `${message.trimEnd()}\n` };
  return (await runGit(context, worktree.ownDir, args, written)).stdout.trim();
};

/**
 * Saves files, commits, stashes and branches that the remote lacks as a commit under `refs/service/salvage/{name}`, which keeps
 * what it had, and the branch. The worktree stays as it is. @throws RepoError when something that git takes could not be saved
 */
export const salvage = (context: GitContext, worktree: Worktree, name: string): Promise<Saved> =>
  attempt(context, "worktree_failed", `save what is in the worktree ${worktree.path}`, async () => {
    if (!isWorktreeId(name)) throw new Error(`"${name}" is no name of a salvage ref`);
    if (!(await hasDirectory(worktree))) return { ref: null, kept: [] };
    const saved = await saveAsFarAsGitTakes(context, worktree, name);
    await noteKept(context, worktree, saved.kept);
    return saved;
  });

/** Lists read it from the owner file. */
const noteKept = async (context: GitContext, { worktreeId }: Worktree, kept: string[]): Promise<void> => {
  const owned = await readOwner(context, worktreeId);
  if (owned !== null && owned.kept.join() !== kept.join()) await writeOwner(context, { ...owned, kept });
};

/** Without the agent's clone when git refuses what is in it: the files are then changes since the base. */
const saveAsFarAsGitTakes = async (context: GitContext, worktree: Worktree, name: string): Promise<Saved> => {
  try {
    return await save(context, worktree, { name });
  } catch (error) {
    const reason = reasonOf(error);
    const nothing = { ref: null, kept: [] };
    if (error instanceof GitError && error.ended !== "exited") return { ...nothing, kept: [reason] };
    const files = await save(context, worktree, { name, filesOnly: true }).catch((again: unknown) => {
      reasonOf(again);
      return nothing;
    });
    return { ref: files.ref, kept: [reason, ...files.kept] };
  }
};

const save = async (context: GitContext, worktree: Worktree, { name, ...how }: How & { name: string }) => {
  const ref = salvageRef(name);
  const { agent, kept, head, tree, headTree, tip } = await capture(context, worktree, how);
  const unsaved = await unsavedCommits(context, worktree, { agent });
  if (tree === headTree && unsaved.length === 0) return { ref: null, kept };
  const { cacheDir, ownDir } = worktree;
  const saved = savedDirOf(cacheDir);
  const before = (await readRefs(saved, [ref])).get(ref) ?? null;
  const bringing = { where: saved, without: await remoteIds(cacheDir), into: ownDir };
  if (before !== null) await bringObjects(context, [before], bringing);
  const parents = await independent(context, worktree, [head, ...unsaved, before]);
  const message = `Unfinished work of job ${name}`;
  const commit = await commitOver(context, worktree, { tree, parents, message });
  if (commit === null || commit === before) return { ref: before === null ? null : ref, kept };
  const branch: [string, string][] = tip !== null && unsaved.length > 0 ? [[branchRef(worktree), tip]] : [];
  await saveRefs(context, worktree, new Map([[ref, commit], ...branch])).catch((error: unknown) => {
    // Of files alone the service's git made all objects: it is no fault of what the worktree holds.
    if (how.filesOnly !== true || !(error instanceof GitError)) throw error;
    throw new RepoError("worktree_failed", error.message);
  });
  return { ref, kept };
};

/** Copies the worktree's branch to `saved.git`, where it outlives the worktree. */
export const saveBranch = async (context: GitContext, worktree: Worktree): Promise<void> => {
  const ref = branchRef(worktree);
  const tip = (await readWhole(context, worktree)).agent.refs.get(ref);
  if (tip === undefined) return;
  await importCommits(context, worktree, [tip]);
  await saveRefs(context, worktree, new Map([[ref, tip]]));
};

/** What `salvage` would leave in the worktree. */
export const unsavable = (context: GitContext, worktree: Worktree): Promise<string[]> =>
  capture(context, worktree).then(
    ({ kept }) => kept,
    (error: unknown) => [reasonOf(error)],
  );

/** Makes a commit of the worktree's state in its own clone, for a throwaway worktree. Null: it has no commit and no file. */
export const captureCommit = async (context: GitContext, worktree: Worktree): Promise<string | null> => {
  const { head, tree } = await capture(context, worktree);
  const parents = head === null ? [] : [head];
  return commitOver(context, worktree, { tree, parents, message: "State to look at" });
};
