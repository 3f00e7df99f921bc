import { lstatSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { present } from "./hidden-changes.ts";
import { ownedDirectory, ownedNames } from "./marker.ts";
import type { Worktree } from "./repos.ts";
import type { Room } from "./room.ts";
import { pathBytes } from "./tree.ts";

/*
 * Histories beside the worktree's own, which no ref of ours leads to: repositories that an agent made or cloned in its
 * worktree (`.git` in a directory), submodules (git keeps theirs in the administrative directory), and a repository that
 * took the place of the worktree's own and was set aside.
 */

/** The `.git` of repositories in directories of a worktree, where git itself never looks. Paths are bytes (latin1). */
export const repositoriesIn = async (root: string, directories: Iterable<string>): Promise<string[]> => {
  const found: string[] = [];
  let looks = 0;
  for (const directory of directories) {
    const path = `${directory}/.git`;
    // In most directories there is none, and a look takes microseconds: far less than to have it done by another thread.
    if (isThere(`${root}/`, path)) found.push(path);
    looks += 1;
    if (looks % 500 === 0) await setImmediate();
  }
  return found;
};

const isThere = (root: string, path: string): boolean => {
  try {
    return (
      lstatSync(Buffer.concat([Buffer.from(root), pathBytes(path)]), { throwIfNoEntry: false }) !== undefined
    );
  } catch {
    return false;
  }
};

/** The same, anywhere in these directories: they hold no files that git would know. */
export const repositoriesUnder = async (root: string, directories: string[]): Promise<string[]> => {
  const found: string[] = [];
  for (const directory of directories) {
    const at = Buffer.concat([Buffer.from(`${root}/`), pathBytes(directory)]);
    // One that cannot be read is told by git as passed over.
    const entries = await readdir(at, { withFileTypes: true, encoding: "buffer" }).catch(() => []);
    const inner: string[] = [];
    for (const entry of entries) {
      const path = `${directory}/${entry.name.toString("latin1")}`;
      if (path.endsWith("/.git")) found.push(path);
      else if (entry.isDirectory()) inner.push(path);
    }
    found.push(...(await repositoriesUnder(root, inner)));
  }
  return found;
};

/** Where a repository that stood in place of the worktree's own is kept: names under the directory of the markers. */
const setAside = async (room: Room, { worktreeId }: Pick<Worktree, "worktreeId">): Promise<string[]> =>
  (await ownedNames(room)).filter((name) => name.startsWith(`${worktreeId}.replaced`));

/** What there is beside the directory, by the directory that holds it. */
export const beside = async (
  room: Room,
  worktree: Pick<Worktree, "worktreeId" | "gitDir">,
): Promise<{ submodules: string[]; replaced: string[] }> => ({
  submodules: await present(worktree.gitDir, ["modules"]),
  replaced: await setAside(room, worktree),
});

/** Removed with the worktree. */
export const setAsidePaths = async (room: Room, worktree: Pick<Worktree, "worktreeId">): Promise<string[]> =>
  (await setAside(room, worktree)).map((name) => join(ownedDirectory(room), name));
