import { lstat, readFile, readlink, rm } from "node:fs/promises";
import { gitDirVariables, runGit, type GitContext } from "./git-context.ts";
import { RepoError, type Worktree } from "./repos.ts";

/** Entries of a commit that need care in a checkout. Paths are bytes, one character each (latin1). */
export type SpecialEntries = { links: string[]; submodules: string[]; attributes: string[] };

type Listing = { worktree: Pick<Worktree, "ownDir" | "repoUrl">; commit: string; signal: AbortSignal };

/**
 * Finds symbolic links, submodules and `.gitattributes` files in a commit. Call this before the checkout: a few small trees
 * that contain each other can stand for any number of files.
 * @throws RepoError `worktree_failed` when the commit exceeds the limits
 */
export const specialEntries = async (context: GitContext, listing: Listing): Promise<SpecialEntries> => {
  const { maxRepoFiles, maxRepoBytes } = context.settings;
  const found: SpecialEntries = { links: [], submodules: [], attributes: [] };
  let files = 0;
  let bytes = 0;
  await listTree(context, listing, (entry, path) => {
    files += 1;
    bytes += Number(entry.slice(entry.lastIndexOf(" ") + 1)) || 0;
    if (files > maxRepoFiles)
      throw tooLarge(listing, `more than ${maxRepoFiles} files and directories`, "SERVICE_MAX_REPO_FILES");
    if (bytes > maxRepoBytes)
      throw tooLarge(listing, `more than ${maxRepoBytes} bytes of files`, "SERVICE_MAX_REPO_BYTES");
    if (entry.startsWith("120000")) found.links.push(path);
    else if (entry.startsWith("160000")) found.submodules.push(path);
    else if (/(^|\/)\.gitattributes$/.test(path)) found.attributes.push(path);
  });
  return found;
};

/** The system's limit, in bytes. */
const maxPathLength = 4096;

const listTree = async (
  context: GitContext,
  { worktree, commit, signal }: Listing,
  take: (entry: string, path: string) => void,
): Promise<void> => {
  let partial = "";
  await runGit(context, ["ls-tree", "-r", "-t", "--long", "-z", "--full-tree", commit], {
    variables: gitDirVariables(worktree.ownDir),
    encoding: "latin1",
    onOutput: (piece) => {
      const [first = "", ...rest] = piece.split("\0");
      const entries = [`${partial}${first}`, ...rest];
      partial = entries.pop() ?? "";
      if (partial.length > maxPathLength + 100)
        throw new RepoError(
          "worktree_failed",
          `The repository ${worktree.repoUrl} has a path of more than ${maxPathLength} bytes.`,
        );
      for (const entry of entries) {
        const tab = entry.indexOf("\t");
        take(entry.slice(0, tab), entry.slice(tab + 1));
      }
    },
    signal,
  });
};

const tooLarge = ({ worktree }: Listing, what: string, variable: string): RepoError =>
  new RepoError(
    "worktree_failed",
    `The repository ${worktree.repoUrl} has ${what}; raise ${variable} if it is to be checked out.`,
  );

/** The bytes of a path from git. */
export const pathBytes = (path: string): Buffer => Buffer.from(path, "latin1");

/** For messages. */
export const shownPath = (path: string): string =>
  pathBytes(path)
    .toString()
    .replaceAll(/\p{Cc}/gu, "?");

/**
 * Removes links that point out of a fresh working tree, so that nothing outside is read or written through them. Resolves to
 * their paths.
 */
export const leaveOutEscapingLinks = async ({ path }: Worktree, links: string[]): Promise<string[]> => {
  const escaping: string[] = [];
  for (const link of links) if (await leadsOut(path, link)) escaping.push(link);
  for (const link of escaping) await rm(inside(path, link), { force: true });
  return escaping;
};

/** Warnings about what the checkout lacks. */
export const checkoutWarnings = async (
  { path }: Worktree,
  { submodules, attributes }: SpecialEntries,
  leftOut: string[],
): Promise<string[]> => {
  const warnings: string[] = [];
  if (leftOut.length > 0) {
    warnings.push(
      `Links that point out of the repository were left out of the worktree: ${listed(leftOut)}.`,
    );
  }
  if (submodules.length > 0) {
    const privately =
      "prepare a worktree, check it out there yourself, and run the task in it (svc worktrees prepare, svc run --worktree-id)";
    warnings.push(
      `Submodules are not checked out: ${listed(submodules)}. One that needs no credentials the agent can check out, if the task says so (git submodule update --init); for another, ${privately}.`,
    );
  }
  if (await usesLfs(path, attributes)) {
    warnings.push(
      "Files kept in Git LFS are not downloaded: the worktree holds their pointers. Give the text files and images among them that the task needs with it (svc run --file).",
    );
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

const listed = (paths: string[]): string => {
  const shown = paths.slice(0, 5).map(shownPath).join(", ");
  return paths.length > 5 ? `${shown} and ${paths.length - 5} more` : shown;
};

/**
 * Whether a link leads out of the working tree at any step, by an absolute path or by `..`. Follows links as the kernel
 * does. A dangling link inside is harmless. Paths are bytes, one character each.
 */
const leadsOut = async (root: string, link: string): Promise<boolean> => {
  const base = Buffer.from(root).toString("latin1");
  const at: string[] = [];
  const ahead = link.split("/");
  for (let hops = 0; ahead.length > 0;) {
    const part = ahead.shift() ?? "";
    if (part === "" || part === ".") continue;
    if (part === "..") {
      if (at.pop() === undefined) return true;
      continue;
    }
    at.push(part);
    const target = await targetOf(pathBytes([base, ...at].join("/")));
    if (target === null) continue;
    // The kernel gives up after 40 as well.
    if (target.startsWith("/") || ++hops > 40) return true;
    at.pop();
    ahead.unshift(...target.split("/"));
  }
  return false;
};

/** The target of a link; null: it is no link, or missing. */
const targetOf = async (path: Buffer): Promise<string | null> => {
  const found = await lstat(path).catch(() => null);
  if (found === null || !found.isSymbolicLink()) return null;
  return (await readlink(path, { encoding: "buffer" })).toString("latin1");
};
