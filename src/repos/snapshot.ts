import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { addAll } from "./add-all.ts";
import { hideFromStatus } from "./checkout-care.ts";
import { uncover } from "./hidden-changes.ts";
import { copyIndex } from "./index-copy.ts";
import { readMarker } from "./marker.ts";
import { addNested } from "./nested.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
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
};

type SnapshotRequest = {
  worktree: Worktree;
  signal: AbortSignal;
  /** Gets the index that belongs to the tree, as long as it exists. */
  use?: (indexFile: string) => Promise<void>;
  /** Takes files that are not in the encoding they should have as they are, instead of failing. */
  asItIs?: boolean;
};

/**
 * Takes stock of a worktree whose agent is gone, in whatever condition that left it. Index, HEAD and files stay as they
 * are: the tree is made with an index of its own.
 */
export const takeSnapshot = async (
  room: Room,
  { worktree, signal, use, asItIs = false }: SnapshotRequest,
): Promise<Contents> => {
  await reclaim(room, worktree);
  const tips = await readTips(room, worktree, signal);
  const index = join(worktree.gitDir, `service-${randomUUID()}.index`);
  try {
    const tree = (await hasDirectory(worktree))
      ? await stage(room, { worktree, index, head: tips.head, asItIs, signal })
      : tips.headTree;
    if (use !== undefined) await use(index);
    return { ...tips, tree };
  } finally {
    for (const file of [index, `${index}.lock`]) await rm(file, { force: true });
  }
};

const readTips = async (
  room: Room,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<Omit<Contents, "tree">> => {
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
  signal: AbortSignal;
};

const stage = async (room: Room, staging: Staging): Promise<string> => {
  const { worktree, index, signal } = staging;
  const call = { variables: { ...worktreeVariables(worktree), GIT_INDEX_FILE: index }, signal };
  // The worktree's own index knows which files are unchanged; without it git would read them all.
  const copied = await copyIndex(worktree, index);
  const leftOut = (await readMarker(room, worktree.worktreeId))?.leftOut ?? [];
  const root = worktree.path;
  const add = async (variables: Record<string, string>): Promise<void> => {
    await uncover(room, { root, index, ...call });
    const said = await addAll(room, { root, variables, signal });
    await addNested(room, { root, variables, index, said, signal });
  };
  if (!copied) await rebuild(room, { ...staging, leftOut });
  await add(call.variables).catch(async (error: unknown) => {
    if (isEncodingFault(error) && staging.asItIs) return unconverted(room, { worktree, index, action: add });
    if (!copied || !(error instanceof GitError) || isEncodingFault(error)) throw error;
    // The agent broke the index.
    await rm(index, { force: true });
    await rebuild(room, { ...staging, leftOut });
    return add(call.variables);
  });
  return (await runGit(room, ["write-tree"], call)).stdout.trim();
};

const rebuild = async (
  room: Room,
  { worktree, index, head, leftOut, signal }: Omit<Staging, "asItIs"> & { leftOut: string[] },
): Promise<void> => {
  if (head === null) return;
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: index };
  await runGit(room, ["read-tree", head], { variables, signal });
  await hideFromStatus(room, { variables, paths: leftOut, signal }).catch((error: unknown) => {
    // The agent's head may lack one of those links; then it is no change that it is not there.
    if (!(error instanceof GitError)) throw error;
  });
};
