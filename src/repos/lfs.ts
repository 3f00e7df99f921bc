import { createHash } from "node:crypto";
import { lstat, open } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { nonBlocking } from "../lib/non-blocking.ts";
import { runGit, type GitContext } from "./git-context.ts";
import { listFiles } from "./git-index.ts";
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
    if (await holds(context, inside(worktree.path, path), content)) filled.push(path);
  return filled;
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
    return content === undefined ? [] : [{ path, content }];
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

const holds = async ({ settings, signal }: GitContext, path: Buffer, wanted: Content): Promise<boolean> => {
  const found = await lstat(path).catch(() => null);
  if (found?.isFile() !== true || found.size !== wanted.size || found.size > settings.maxRepoBytes)
    return false;
  const hash = createHash("sha256");
  const file = await open(path, nonBlocking.read);
  await pipeline(file.createReadStream(), hash, { signal });
  return hash.digest("hex") === wanted.hash;
};
