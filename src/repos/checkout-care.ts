import { lstat, mkdir, readFile, readlink, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { some } from "../lib/some.ts";
import { fetchRepo } from "./cache.ts";
import { readRefs, remoteRefs } from "./clone.ts";
import { attempt } from "./failure.ts";
import { filtersIn } from "./filters.ts";
import { runGit, type GitContext } from "./git-context.ts";
import { inside, pathBytes, shownPath } from "./path-bytes.ts";
import { askHead, resolveBase } from "./ref.ts";
import { RepoError, type FilesRequest, type Wanted, type Worktree } from "./repos.ts";

/** Writes the files of a branch or tag to `{into}/{commit}`, unless they are there already. Resolves to the commit. */
export const checkOutFiles = async (context: GitContext, request: FilesRequest): Promise<string> => {
  const { url, ref, into } = request;
  const { gitDir } = await fetchRepo(context, { url, allowLocal: true });
  return attempt(context, "worktree_failed", `check out ${url}`, async () => {
    const refs = await readRefs(gitDir, remoteRefs);
    const baseRef = ref || ((await askHead(context, url)).branch ?? "");
    const { baseSha: commit } = await resolveBase(context, { url, baseRef, refs, gitDir });
    if (commit === null) throw new RepoError("worktree_failed", `The repository ${url} has no commit.`);
    const directory = join(into, commit);
    if ((await lstat(directory).catch(() => null)) !== null) return commit;
    await specialEntries(context, { gitDir, url }, commit);
    const half = `${directory}.new`;
    const index = `${directory}.index`;
    try {
      await rm(half, { recursive: true, force: true });
      await mkdir(half, { recursive: true, mode: 0o700 });
      // Only the service writes there: it is no agent's tree.
      const variables = { GIT_WORK_TREE: half, GIT_INDEX_FILE: index };
      await runGit(context, gitDir, ["read-tree", "--reset", "-u", commit], { variables });
      // The directory gets its name when it is complete.
      await rename(half, directory);
    } finally {
      await rm(index, { force: true });
      await rm(half, { recursive: true, force: true });
    }
    return commit;
  });
};

/** Entries of a commit that need care in a checkout. Paths are bytes. `submodules`: their commits by path. */
export type SpecialEntries = Size & {
  links: string[];
  submodules: Map<string, string>;
  attributes: string[];
};

/** Files and directories, and bytes of the files. */
export type Size = { files: number; bytes: number };

/**
 * Finds what needs care in a commit before its checkout: a few small trees that contain each other can stand for any number of
 * files. `taken`: what counts towards the limits already. @throws RepoError when the commit exceeds the limits
 */
export const specialEntries = async (
  context: GitContext,
  { gitDir, url }: { gitDir: string; url: string },
  commit: string,
  taken: Size = { files: 0, bytes: 0 },
): Promise<SpecialEntries> => {
  const { maxRepoFiles, maxRepoBytes } = context.settings;
  const found: SpecialEntries = { ...taken, links: [], submodules: new Map(), attributes: [] };
  const fail = (what: string): never => {
    throw new RepoError("worktree_failed", `The repository ${url} has ${what}`);
  };
  let partial = "";
  const take = (entry: string): void => {
    const tab = entry.indexOf("\t");
    const path = entry.slice(tab + 1);
    found.files += 1;
    found.bytes += Number(entry.slice(entry.lastIndexOf(" ", tab) + 1, tab)) || 0;
    const raise = (variable: string): string => `raise ${variable} if it is to be checked out.`;
    if (found.files > maxRepoFiles)
      fail(`more than ${maxRepoFiles} files and directories; ${raise("SERVICE_MAX_REPO_FILES")}`);
    if (found.bytes > maxRepoBytes)
      fail(`more than ${maxRepoBytes} bytes of files; ${raise("SERVICE_MAX_REPO_BYTES")}`);
    if (entry.startsWith("120000")) found.links.push(path);
    else if (entry.startsWith("160000")) found.submodules.set(path, entry.slice(14, 54));
    else if (/(^|\/)\.gitattributes$/.test(path)) found.attributes.push(path);
  };
  const onOutput = (piece: string): void => {
    const entries = `${partial}${piece}`.split("\0");
    partial = entries.pop() ?? "";
    if (partial.length > maxPathLength + 100) fail(`a path of more than ${maxPathLength} bytes.`);
    entries.forEach(take);
  };
  const args = ["ls-tree", "-r", "-t", "--long", "-z", "--full-tree", commit];
  await runGit(context, gitDir, args, { encoding: "latin1", onOutput });
  return found;
};

/** The system's limit, in bytes. */
const maxPathLength = 4096;

/** Removes links out of a fresh working tree, so that nothing is read or written through them. Resolves to their paths. */
export const leaveOutEscapingLinks = async ({ path }: Pick<Worktree, "path">, links: string[]) => {
  const escaping: string[] = [];
  for (const link of links) if (await leadsOut(path, link)) escaping.push(link);
  for (const link of escaping) await rm(inside(path, link), { force: true });
  return escaping;
};

export const checkoutWarnings = async (
  { path }: Worktree,
  { submodules, attributes }: SpecialEntries,
  { leftOut, wanted }: { leftOut: string[]; wanted: Wanted },
): Promise<string[]> => {
  const warnings: string[] = [];
  if (leftOut.length > 0)
    warnings.push(
      `Links that point out of the repository were left out of the worktree: ${listed(leftOut)}.`,
    );
  if (submodules.size > 0 && wanted.submodules === false)
    warnings.push(
      `Submodules are not checked out: ${listed([...submodules.keys()])}. svc run --submodules checks them out (options.submodules, or submodules: true in the profile).`,
    );
  const filters = await filtersOf(path, attributes);
  if (!wanted.lfs && filters.has("lfs"))
    warnings.push(
      "Files kept in Git LFS are not downloaded: the worktree holds their pointers. svc run --lfs downloads them (options.lfs, or lfs: true in the profile).",
    );
  filters.delete("lfs");
  if (filters.size > 0)
    warnings.push(
      `Filters of .gitattributes do not run here (${listed([...filters])}): their files are as the repository stores them, and new ones are not encrypted or filtered.`,
    );
  return warnings;
};

/** Names of the filters in `.gitattributes` files. */
const filtersOf = async (root: string, attributes: string[]): Promise<Set<string>> => {
  const names = new Set<string>();
  for (const path of attributes.slice(0, 100).map((file) => inside(root, file))) {
    const found = await lstat(path).catch(() => null);
    if (found?.isFile() !== true || found.size >= 1_000_000) continue;
    for (const name of filtersIn(await readFile(path, "latin1"))) names.add(name);
  }
  return names;
};

const listed = (paths: string[]): string => some(paths.map(shownPath));

/** Whether a link leads out of the working tree at any step, as the kernel follows it. One that dangles inside does not. */
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
