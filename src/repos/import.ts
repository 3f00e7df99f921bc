import { constants } from "node:fs";
import { open } from "node:fs/promises";
import { join } from "node:path";
import type { GitError } from "../lib/git.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import { readRefs, remoteRefs } from "./clone.ts";
import { reasonOf } from "./failure.ts";
import { runGit, unlessRefused, type GitContext } from "./git-context.ts";
import { objectsAt } from "./git-objects.ts";
import { NotCaptured, type Worktree } from "./repos.ts";
import { emptyScratch, scratchOf, type Tree } from "./wall.ts";

/*
 * Objects that an agent or git behind the wall made become objects of the service's git directory of the worktree: git packs
 * them behind the wall, and `index-pack` outside takes the pack when its size, its objects and their links are right.
 */

/** Takes over commits of the agent's clone with their history. Missing ones are left out. @throws NotCaptured */
export const importCommits = async (context: GitContext, worktree: Worktree, ids: readonly string[]) => {
  const here = await objectsAt(context, worktree.ownDir, ids);
  const lacking = ids.filter((_, nth) => here[nth] === null);
  const there = await objectsAt(context, worktree, lacking);
  // An annotated tag brings its commit.
  const objects = lacking.filter((_, nth) => ["commit", "tag"].includes(there[nth]?.type ?? ""));
  await importPack(context, worktree, { objects });
};

/** As `importCommits`, of commits that are there, and besides a tree, made of the files over the commit `head`. */
export const importCaptured = async (
  context: GitContext,
  tree: Tree & Worktree,
  { commits, tree: files, head }: { commits: readonly string[]; tree: string; head: string | null },
): Promise<void> => {
  const found = await objectsAt(context, tree.ownDir, [files, ...commits]);
  const here = new Set(found.map((each) => each?.id));
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
  const packing = runGit(context, tree, args, { input: [...objects, ...without, ""].join("\n") });
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
