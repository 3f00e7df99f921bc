import { randomUUID } from "node:crypto";
import { readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { addAll } from "./add-all.ts";
import { hideFromStatus } from "./checkout-care.ts";
import { present, uncover } from "./hidden-changes.ts";
import { copyIndex } from "./index-copy.ts";
import { readIndexFlags, submodulesOf } from "./index-flags.ts";
import { readMarker } from "./marker.ts";
import { addNested } from "./nested.ts";
import { dropPaths, emptyDirectories, passedOver, within } from "./passed-over.ts";
import { repositoriesIn, repositoriesUnder } from "./repositories-inside.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { pathBytes } from "./tree.ts";
import { isEncodingFault, unconverted } from "./unconverted.ts";
import { hasDirectory, reclaim, worktreeVariables } from "./worktree-links.ts";

/** The tree without any file; git knows it without its being stored. */
export const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

export type Contents = {
  /** Commit that is checked out, on whatever branch; null: none. */
  head: string | null;
  headTree: string;
  /** Tip of the worktree's own branch; null: it has no commit. */
  tip: string | null;
  /** Everything in the directory but ignored files, as a tree; that of the head when the directory is gone. */
  tree: string;
  /** Paths that are not in the tree, because git does not take them; those of submodules with files among them. */
  passedOver: string[];
  /** The `.git` of repositories in the directory; only looked for when `whole`. */
  repositories: string[];
};

type SnapshotRequest = {
  worktree: Worktree;
  signal: AbortSignal;
  /** Gets the index that belongs to the tree, as long as it exists. */
  use?: (indexFile: string) => Promise<void>;
  /** Takes files that are not in the encoding they should have as they are, instead of failing. */
  asItIs?: boolean;
  /** The files of submodules too, and where repositories are. */
  whole?: boolean;
  /** Paths that are left out, as `ignoredPaths` gives them. */
  ignored?: string[];
};

/**
 * Takes stock of a worktree whose agent is gone, in whatever condition that left it. Index, HEAD and files stay as they
 * are: the tree is made with an index of its own.
 */
export const takeSnapshot = async (
  room: Room,
  { worktree, signal, use, asItIs = false, whole = false, ignored = [] }: SnapshotRequest,
): Promise<Contents> => {
  await reclaim(room, worktree);
  const tips = await readTips(room, worktree, signal);
  const index = join(worktree.gitDir, `service-${randomUUID()}.index`);
  try {
    const staged = (await hasDirectory(worktree))
      ? await stage(room, { worktree, index, head: tips.head, asItIs, whole, ignored, signal })
      : { tree: tips.headTree, passedOver: [], repositories: [] };
    if (use !== undefined) await use(index);
    return { ...tips, ...staged };
  } finally {
    for (const file of [index, `${index}.lock`]) await rm(file, { force: true });
  }
};

const readTips = async (
  room: Room,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<Pick<Contents, "head" | "headTree" | "tip">> => {
  const variables = worktreeVariables(worktree);
  const input = `HEAD^{commit}\nHEAD^{tree}\nrefs/heads/${worktree.branch}^{commit}\n`;
  const { stdout } = await runGit(room, ["cat-file", "--batch-check=%(objectname)"], {
    variables,
    input,
    signal,
  });
  const [head = null, headTree = null, tip = null] = stdout
    .split("\n")
    .map((line) => (/^[0-9a-f]{40}$/.test(line) ? line : null));
  return { head, headTree: headTree ?? emptyTree, tip };
};

type Staging = {
  worktree: Worktree;
  index: string;
  head: string | null;
  asItIs: boolean;
  whole: boolean;
  ignored: string[];
  signal: AbortSignal;
};

type Staged = Pick<Contents, "tree" | "passedOver" | "repositories">;

const stage = async (room: Room, staging: Staging): Promise<Staged> => {
  const { worktree, index, whole, ignored, signal } = staging;
  const call = { variables: { ...worktreeVariables(worktree), GIT_INDEX_FILE: index }, signal };
  // The worktree's own index knows which files are unchanged; without it git would read them all.
  const copied = await copyIndex(worktree, index);
  const leftOut = (await readMarker(room, worktree.worktreeId))?.leftOut ?? [];
  const root = worktree.path;
  const add = async (variables: Record<string, string>): Promise<string[]> => {
    await uncover(room, { root, index, ...call });
    const keep = new Set(whole ? [] : (await readIndexFlags(index))?.submodules);
    const said = await addAll(room, { root, variables, signal });
    await addNested(room, { root, variables, index, said, keep, signal });
    await dropPaths(room, { root, ...call }, ignored);
    const left = said === "" ? [] : await passedOver(room, { root, ...call });
    return [...(await submodulesWithFiles(root, index)), ...left.filter((path) => !within(ignored)(path))];
  };
  if (!copied) await rebuild(room, { ...staging, leftOut });
  const left = await add(call.variables).catch(async (error: unknown) => {
    if (isEncodingFault(error) && staging.asItIs) return unconverted(room, { worktree, index, action: add });
    if (!copied || !(error instanceof GitError) || isEncodingFault(error)) throw error;
    // The agent broke the index.
    await rm(index, { force: true });
    await rebuild(room, { ...staging, leftOut });
    return add(call.variables);
  });
  const tree = (await runGit(room, ["write-tree"], call)).stdout.trim();
  const found = whole ? await repositoriesOf(room, { root, index, ...call }) : [];
  const repositories = found.filter((path) => !within(ignored)(path));
  return { tree, passedOver: left, repositories };
};

const submodulesWithFiles = async (root: string, index: string): Promise<string[]> => {
  const found: string[] = [];
  for (const name of await present(root, await submodulesOf(index))) {
    const names = await readdir(Buffer.concat([Buffer.from(`${root}/`), pathBytes(name)])).catch(() => []);
    if (names.length > 0) found.push(name);
  }
  return found;
};

const repositoriesOf = async (
  room: Room,
  listing: { root: string; index: string; variables: Record<string, string>; signal: AbortSignal },
): Promise<string[]> => {
  const { root, index } = listing;
  const flags = await readIndexFlags(index);
  const found = await repositoriesIn(root, flags?.directories ?? []);
  return [...found, ...(await repositoriesUnder(root, await emptyDirectories(room, listing)))];
};

const rebuild = async (
  room: Room,
  {
    worktree,
    index,
    head,
    leftOut,
    signal,
  }: Pick<Staging, "worktree" | "index" | "head" | "signal"> & { leftOut: string[] },
): Promise<void> => {
  if (head === null) return;
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: index };
  await runGit(room, ["read-tree", head], { variables, signal });
  await hideFromStatus(room, { variables, paths: leftOut, signal }).catch((error: unknown) => {
    // The agent's head may lack one of those links; then it is no change that it is not there.
    if (!(error instanceof GitError)) throw error;
  });
};
