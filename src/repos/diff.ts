import { isUtf8 } from "node:buffer";
import { lstat, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ChangedFile, DiffFormat } from "../contract/diff.ts";
import { removeTree } from "../lib/remove-tree.ts";
import { fetchRepo } from "./cache.ts";
import { capture } from "./capture.ts";
import { specialEntries } from "./checkout-care.ts";
import { cachedRefs, copyIndex, emptyTree, hasDirectory, remoteRefs } from "./clone.ts";
import { asRepoError } from "./failure.ts";
import { type GitContext, cacheGitDir, gitDirVariables, runGit } from "./git-context.ts";
import { borrowObjects, canonicalConfig, makeGitDirectory, restoreGitDirectory } from "./git-directory.ts";
import { type OwnerFile, readOwner } from "./owner-file.ts";
import { defaultBranch, resolveBase } from "./ref.ts";
import { type Diff, type DiffRequest, type FilesRequest, RepoError } from "./repos.ts";
import { repoKey } from "./url.ts";

/**
 * See the port. Works in a temporary git directory that borrows the objects of the clones: it reads no configuration that
 * an agent can write, and changes nothing that an agent uses.
 */
export const diffChange = async (context: GitContext, request: DiffRequest): Promise<Diff | null> => {
  const { repoUrl, worktreeId, head, signal } = request;
  const gitDir = await mkdtemp(join(tmpdir(), "service-diff-"));
  try {
    const owned = worktreeId === null ? null : await readOwner(context, worktreeId);
    const cacheDir = cacheGitDir(context, repoUrl === "" ? null : repoKey(repoUrl));
    const lenders = owned === null ? [] : [owned.worktree.ownDir];
    const config = canonicalConfig(context.settings, { url: null, bare: true });
    await makeGitDirectory(gitDir, { config, head: "refs/heads/none" });
    await borrowObjects(gitDir, [cacheDir, ...lenders]);
    const scratch = { gitDir, cacheDir, owned, request };
    const sides = await (head === null ? filesNow(context, scratch) : commitOf(context, scratch, head));
    if (sides === null) return null;
    const between = { gitDir, from: sides.base ?? emptyTree, to: sides.tree, signal };
    const files = await changedFiles(context, between);
    const { base, kept } = sides;
    return { base, head: sides.head, kept, files, ...(await textBetween(context, between, request)) };
  } catch (error) {
    throw asRepoError(error, { reason: "worktree_failed", what: "compare the files", signal });
  } finally {
    await removeTree(gitDir);
  }
};

type Scratch = { gitDir: string; cacheDir: string; owned: OwnerFile | null; request: DiffRequest };

type Sides = Pick<Diff, "base" | "head" | "kept"> & { tree: string };

const filesNow = async (context: GitContext, { gitDir, owned, request }: Scratch): Promise<Sides | null> => {
  if (owned === null) return null;
  const { worktree } = owned;
  if (!(await hasDirectory(worktree)))
    throw new RepoError(
      "worktree_failed",
      `The directory ${worktree.path} was deleted, and its clone with it`,
    );
  // The service's own index tells git which files are unchanged; without it git reads them all.
  await copyIndex(join(worktree.ownDir, "index"), join(gitDir, "index"));
  const scratch = { ...worktree, ownDir: gitDir };
  const { tree, kept } = await capture(context, { worktree: scratch, live: true, signal: request.signal });
  return { base: worktree.baseSha, head: null, tree, kept };
};

const commitOf = async (context: GitContext, scratch: Scratch, head: string): Promise<Sides | null> => {
  const { gitDir, cacheDir, request } = scratch;
  const { repoUrl, base, signal } = request;
  if ((await lstat(cacheDir).catch(() => null)) !== null) {
    const config = canonicalConfig(context.settings, { url: repoUrl || null, bare: true });
    await restoreGitDirectory(cacheDir, { config, head: "refs/heads/main" });
  }
  const refs = await cachedRefs(context, { cacheDir, names: [head], signal });
  const commit = /^[0-9a-f]{40}$/.test(head) ? head : refs.find(({ name }) => name === head)?.commit;
  if (commit === undefined || !(await hasTree(context, gitDir, commit, signal))) return null;
  if (base !== null && !(await hasTree(context, gitDir, base, signal))) return null;
  return { base, head: commit, tree: commit, kept: [] };
};

const hasTree = async (
  context: GitContext,
  gitDir: string,
  commit: string,
  signal: AbortSignal,
): Promise<boolean> => {
  const call = { variables: gitDirVariables(gitDir), input: `${commit}^{tree}\n`, signal };
  return !(await runGit(context, ["cat-file", "--batch-check"], call)).stdout.endsWith(" missing\n");
};

type Between = { gitDir: string; from: string; to: string; signal: AbortSignal };

const compare = ["diff-tree", "-r", "--find-renames", "--no-ext-diff", "--no-textconv"];

const statuses: Record<string, ChangedFile["status"]> = {
  A: "added",
  D: "deleted",
  R: "renamed",
  T: "type_changed",
};

const changedFiles = async (
  context: GitContext,
  { gitDir, from, to, signal }: Between,
): Promise<ChangedFile[]> => {
  const { stdout } = await runGit(context, [...compare, "-z", "--raw", "--numstat", from, to], {
    variables: gitDirVariables(gitDir),
    maxOutputBytes: 256 * 1024 * 1024,
    signal,
  });
  const files = new Map<string, ChangedFile>();
  const fields = stdout.split("\0").values();
  const next = (): string => fields.next().value ?? "";
  // First a status for each file, then the lines of each: `:100644 100644 … M`, `3\t2\tpath`, each with its paths.
  for (let entry = next(); entry !== ""; entry = next()) {
    if (entry.startsWith(":")) {
      const status = statuses[entry.split(" ")[4]?.charAt(0) ?? ""] ?? "modified";
      const old_path = status === "renamed" ? next() : null;
      const path = next();
      files.set(path, { path, old_path, status, insertions: 0, deletions: 0, binary: false });
      continue;
    }
    const [added = "", deleted = "", ...rest] = entry.split("\t");
    const path = rest.join("\t") || (next(), next());
    const lines = { insertions: Number(added) || 0, deletions: Number(deleted) || 0, binary: added === "-" };
    Object.assign(files.get(path) ?? {}, lines);
  }
  return [...files.values()];
};

const options: Record<DiffFormat, string[]> = {
  patch: ["--patch", "--binary", "--full-index"],
  stat: ["--stat"],
  names: ["--name-only"],
};

const textBetween = async (
  context: GitContext,
  { gitDir, from, to, signal }: Between,
  { format, maxBytes }: DiffRequest,
): Promise<Pick<Diff, "text" | "truncated" | "lossy">> => {
  let text = "";
  const enough = new Error("the diff is larger than asked for");
  const onOutput = (piece: string): void => {
    text += piece;
    if (text.length > maxBytes) throw enough;
  };
  const call = { variables: gitDirVariables(gitDir), encoding: "latin1" as const, onOutput, signal };
  await runGit(context, [...compare, ...options[format], from, to], call).catch((error: unknown) => {
    if (error !== enough) throw error;
  });
  const truncated = text.length > maxBytes;
  if (truncated) {
    const border = format === "patch" ? "\ndiff --git " : "\n";
    text = text.slice(0, text.lastIndexOf(border, maxBytes) + 1);
  }
  const bytes = Buffer.from(text, "latin1");
  return { text: bytes.toString(), truncated, lossy: !isUtf8(bytes) };
};

/** See the port. */
export const checkOutFiles = async (context: GitContext, request: FilesRequest): Promise<string> => {
  const { url, ref, into, signal } = request;
  const repo = await fetchRepo(context, { url, signal, allowLocal: true });
  try {
    const refs = await cachedRefs(context, { cacheDir: repo.gitDir, names: remoteRefs, signal });
    const baseRef = ref || ((await defaultBranch(context, { repo, signal })) ?? "");
    const { baseSha: commit } = await resolveBase(context, { repo, baseRef, refs, signal });
    if (commit === null) throw new RepoError("worktree_failed", `The repository ${url} has no commit.`);
    const directory = join(into, commit);
    if ((await lstat(directory).catch(() => null)) === null)
      await writeFiles(context, { gitDir: repo.gitDir, repoUrl: url, commit, directory, signal });
    return commit;
  } catch (error) {
    throw asRepoError(error, { reason: "worktree_failed", what: `check out ${url}`, signal });
  }
};

type Files = { gitDir: string; repoUrl: string; commit: string; directory: string; signal: AbortSignal };

/** The directory gets its name when it is complete. */
const writeFiles = async (context: GitContext, files: Files): Promise<void> => {
  const { gitDir, commit, directory, signal } = files;
  await specialEntries(context, { worktree: { ...files, ownDir: gitDir }, commit, signal });
  const half = `${directory}.new`;
  const index = `${directory}.index`;
  try {
    await rm(half, { recursive: true, force: true });
    await mkdir(half, { recursive: true, mode: 0o700 });
    const variables = { ...gitDirVariables(gitDir), GIT_WORK_TREE: half, GIT_INDEX_FILE: index };
    await runGit(context, ["read-tree", "--reset", "-u", commit], { variables, cwd: half, signal });
    await rename(half, directory);
  } finally {
    await rm(index, { force: true });
    await rm(half, { recursive: true, force: true });
  }
};
