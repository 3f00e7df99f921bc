import { createHash } from "node:crypto";
import { lstat, open } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { nonBlocking } from "../lib/non-blocking.ts";
import { runGit, type GitContext } from "./git-context.ts";
import { indexOfTree, listFiles } from "./git-index.ts";
import { objectsAt } from "./git-objects.ts";
import { inside } from "./path-bytes.ts";
import type { Worktree } from "./repos.ts";
import { staysInside, type Tree } from "./wall.ts";

export type Content = { hash: string; size: number };

/**
 * Paths at which Git LFS has put the content that git's pointer names: they are unchanged, although the service, which runs
 * no filter, sees other content than the pointer. Paths are bytes. The worktree's index must be that of the commit.
 */
export const filledPointers = async (context: GitContext, worktree: Worktree & Tree): Promise<string[]> => {
  // Git LFS makes it in each clone in which it runs.
  if ((await lstat(join(worktree.gitDir, "lfs")).catch(() => null)) === null) return [];
  const filled: string[] = [];
  for (const { path, content } of await pointersIn(context, worktree))
    if ((await hashOf(context, inside(worktree.path, path), content.size)) === content.hash)
      filled.push(path);
  return filled;
};

/** Entries of the index for files whose content a pointer of the commit names. Little more than all of those name is read. */
export const pointersFor = async (
  context: GitContext,
  tree: Tree,
  { paths, commit }: { paths: readonly string[]; commit: string },
): Promise<Map<string, string>> => {
  const entries = new Map<string, string>();
  if (paths.length === 0) return entries;
  const known = await pointersIn(context, await indexOfTree(context, tree, commit));
  const ids = new Map(known.map(({ id, content }) => [content.hash, id]));
  const sizes = new Set(known.map(({ content }) => content.size));
  let bytes = known.reduce((sum, { content }) => sum + content.size, 2 ** 30);
  for (const path of paths) {
    const file = inside(tree.path, path);
    const { size, mode } = (await lstat(file).catch(() => null)) ?? { size: -1, mode: 0 };
    if (!sizes.has(size) || (bytes -= size) < 0) continue;
    const id = ids.get((await hashOf(context, file, size)) ?? "");
    if (id !== undefined) entries.set(path, `${mode & 0o100 ? "100755" : "100644"} ${id}\t${path}`);
  }
  return entries;
};

/** The files in Git LFS of the service's index of a worktree. Paths are bytes. */
export const pointersIn = async (context: GitContext, worktree: Tree) => {
  const listed = await listFiles(context, worktree, "--stage", "--", ":(attr:filter=lfs)");
  const entries = listed.flatMap((entry) => {
    const [, id = "", path = ""] = /^100\d{3} ([0-9a-f]{40}) \d\t(.+)$/s.exec(entry) ?? [];
    return staysInside(path) ? [{ id, path }] : [];
  });
  const contents = await contentsOf(context, worktree, [...new Set(entries.map(({ id }) => id))]);
  return entries.flatMap(({ id, path }) => {
    const content = contents.get(id);
    return content === undefined ? [] : [{ id, path, content }];
  });
};

/** What the pointers among these blobs name. */
const contentsOf = async (context: GitContext, worktree: Tree, ids: string[]) => {
  const found = await objectsAt(context, worktree, ids);
  const small = found.flatMap((each) => (each?.type === "blob" && each.size < 1000 ? `${each.id}\n` : []));
  const reading = { input: small.join(""), encoding: "latin1" } as const;
  const { stdout } = await runGit(context, worktree, ["cat-file", "--batch"], reading);
  const contents = new Map<string, Content>();
  for (const [, id = "", hash = "", size] of stdout.matchAll(pointer))
    contents.set(id, { hash, size: Number(size) });
  return contents;
};

const pointer =
  /^([0-9a-f]{40}) blob \d+\nversion https:\/\/git-lfs\.github\.com\/spec\/v1\noid sha256:([0-9a-f]{64})\nsize (\d{1,15})$/gm;

/** Null: it is no file of that size, or too large. */
const hashOf = async ({ settings, signal }: GitContext, path: Buffer, size: number) => {
  const found = await lstat(path).catch(() => null);
  if (found?.isFile() !== true || found.size !== size || size > settings.maxRepoBytes) return null;
  const hash = createHash("sha256");
  const file = await open(path, nonBlocking.read);
  await pipeline(file.createReadStream(), hash, { signal });
  return hash.digest("hex");
};
