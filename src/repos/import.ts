import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { GitError } from "../lib/git.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import { readRefs, remoteRefs } from "./clone.ts";
import { reasonOf } from "./failure.ts";
import { runGit, unlessRefused, type GitContext, type Where } from "./git-context.ts";
import { NotCaptured, type Worktree } from "./repos.ts";
import { emptyScratch, scratchOf, type Tree } from "./wall.ts";

/*
 * Objects that an agent or git behind the wall made become objects of the service's git directory of the worktree: git packs
 * them behind the wall, and `index-pack` outside takes the pack when its size, its objects and their links are right.
 */

/** Ids by what git has under them; of missing ones nothing. */
export const typesOf = async (
  context: GitContext,
  where: Where,
  ids: readonly string[],
): Promise<Map<string, string>> => {
  const check = ["cat-file", "--batch-check=%(objectname) %(objecttype)"];
  const { stdout } = await runGit(context, where, check, { input: asLines(ids) });
  const found = stdout.matchAll(/^([0-9a-f]{40}) (commit|tag|tree|blob)$/gm);
  return new Map(Array.from(found, ([, id = "", type = ""]) => [id, type]));
};

const asLines = (ids: readonly string[]): string => ids.map((id) => `${id}\n`).join("");

/** Takes over commits of the agent's clone with their history. Missing ones are left out. @throws NotCaptured */
export const importCommits = async (
  context: GitContext,
  worktree: Worktree,
  ids: readonly string[],
): Promise<void> => {
  const here = await typesOf(context, worktree.ownDir, ids);
  const lacking = ids.filter((id) => !here.has(id));
  if (lacking.length === 0) return;
  const there = await typesOf(context, worktree, lacking);
  // An annotated tag brings its commit.
  const objects = lacking.filter((id) => ["commit", "tag"].includes(there.get(id) ?? ""));
  await importPack(context, worktree, { objects });
};

/** As `importCommits`, of commits that are there, and besides a tree, made of the files over the commit `head`. */
export const importCaptured = async (
  context: GitContext,
  tree: Tree & Worktree,
  { commits, tree: files, head }: { commits: readonly string[]; tree: string; head: string | null },
): Promise<void> => {
  const here = await typesOf(context, tree.ownDir, [files, ...commits]);
  const objects = [files, ...commits].filter((id) => !here.has(id));
  const over = head !== null && here.has(head) ? head : tree.baseSha;
  await importPack(context, tree, { objects, over: here.has(files) ? null : over });
};

/** `over`: a commit that the service has, whose files need not be packed. */
const importPack = async (
  context: GitContext,
  tree: Tree & Worktree,
  { objects, over = null }: { objects: readonly string[]; over?: string | null },
): Promise<void> => {
  if (objects.length === 0) return;
  const { ownDir, cacheDir, baseSha } = tree;
  const has = new Set([baseSha, ...(await readRefs(cacheDir, remoteRefs)).values()]);
  has.delete(null);
  const without = [...(over === null ? [] : [`${over}^{tree}`]), ...has].map((name) => `^${name}`);
  const packs = join(scratchOf(ownDir), "objects/pack");
  const args = ["pack-objects", "--revs", "--quiet", "--delta-base-offset", join(packs, "pack")];
  const packing = runGit(context, tree, args, { input: asLines([...objects, ...without]) });
  const name = (await unlessRefused(packing, refuse)).stdout.trim();
  if (!/^[0-9a-f]{40}$/.test(name)) throw new NotCaptured("git has packed nothing");
  await takePack(context, ownDir, join(packs, `pack-${name}.pack`));
  await emptyScratch(ownDir);
};

const takePack = async (context: GitContext, ownDir: string, path: string): Promise<void> => {
  const file = await open(path, nonBlocking.read | constants.O_NOFOLLOW);
  try {
    if (!(await file.stat()).isFile()) throw new NotCaptured("what git has packed is no file");
    const most = `--max-input-size=${context.settings.maxRepoBytes}`;
    const args = ["index-pack", "--stdin", `--strict=${ignored}`, most];
    await unlessRefused(runGit(context, ownDir, args, { inputFd: file.fd }), refuse);
  } finally {
    await file.close();
  }
};

const refuse = (error: GitError): never => {
  throw new NotCaptured(reasonOf(error));
};

/** What a repository's .gitmodules says is no fault of its objects, and no git here does what it says. */
const declarations = "Blob Large Missing Name Parse Path Symlink Update Url";

/** Only old tools made them, and histories of old repositories have them for ever. */
const oldFaults =
  "zeroPaddedFilemode zeroPaddedDate badDate badDateOverflow badTimezone badEmail badName missingEmail missingNameBeforeEmail missingSpaceBeforeDate missingSpaceBeforeEmail multipleAuthors nulInCommit";

const ignored = [
  ...declarations.split(" ").map((name) => `gitmodules${name}=ignore`),
  ...oldFaults.split(" ").map((name) => `${name}=ignore`),
].join(",");
