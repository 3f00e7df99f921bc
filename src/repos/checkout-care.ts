import { lstat, readFile, rm } from "node:fs/promises";
import { leadsOut } from "./escaping-links.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { pathBytes, shownPath, type SpecialEntries } from "./tree.ts";
import { worktreeVariables } from "./worktree-links.ts";

/**
 * Takes links that point out of a fresh working tree away from it, so that nothing is read or written outside through
 * them, without that counting as a change. Resolves to their paths.
 */
export const leaveOutEscapingLinks = async (
  room: Room,
  {
    worktree,
    links,
    index,
    signal,
  }: {
    worktree: Worktree;
    links: string[];
    /** Default: the worktree's own. */ index?: string;
    signal: AbortSignal;
  },
): Promise<string[]> => {
  const escaping: string[] = [];
  for (const link of links) if (await leadsOut(worktree.path, link)) escaping.push(link);
  for (const link of escaping) await rm(inside(worktree.path, link), { force: true });
  const variables = {
    ...worktreeVariables(worktree),
    ...(index === undefined ? {} : { GIT_INDEX_FILE: index }),
  };
  await hideFromStatus(room, { variables, paths: escaping, signal });
  return escaping;
};

/** Marks paths as not checked out in the index that the variables name. */
export const hideFromStatus = async (
  room: Room,
  { variables, paths, signal }: { variables: Record<string, string>; paths: string[]; signal: AbortSignal },
): Promise<void> => {
  if (paths.length === 0) return;
  const input = Buffer.concat(paths.map((path) => pathBytes(`${path}\0`)));
  await runGit(room, ["update-index", "--skip-worktree", "-z", "--stdin"], { variables, input, signal });
};

/** What the checkout does not hold as one might expect, a sentence each. */
export const checkoutWarnings = async (
  { path }: Worktree,
  { submodules, attributes }: SpecialEntries,
  leftOut: string[],
): Promise<string[]> => {
  const warnings: string[] = [];
  if (leftOut.length > 0) {
    warnings.push(`Links that point out of the repository were left out of the worktree: ${some(leftOut)}.`);
  }
  if (submodules.length > 0) warnings.push(`Submodules are not checked out: ${some(submodules)}.`);
  if (await usesLfs(path, attributes)) {
    warnings.push("Files kept in Git LFS are not downloaded: the worktree holds their pointers.");
  }
  return warnings;
};

const usesLfs = async (root: string, attributes: string[]): Promise<boolean> => {
  for (const file of attributes.slice(0, 100)) {
    const path = inside(root, file);
    const found = await lstat(path).catch(() => null);
    if (
      found?.isFile() === true &&
      found.size < 1_000_000 &&
      /\bfilter=lfs\b/.test(await readFile(path, "latin1"))
    )
      return true;
  }
  return false;
};

const inside = (root: string, path: string): Buffer =>
  Buffer.concat([Buffer.from(`${root}/`), pathBytes(path)]);

const some = (paths: string[]): string => {
  const shown = paths.slice(0, 5).map(shownPath).join(", ");
  return paths.length > 5 ? `${shown} and ${paths.length - 5} more` : shown;
};
