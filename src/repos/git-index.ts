import { utimes } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { type GitContext, runGit, runGitOrNull } from "./git-context.ts";
import { pathList } from "./path-bytes.ts";
import { indexOf, scratchOf, type Tree } from "./wall.ts";

/** Paths of the index of a tree, or what the options make of it. Paths are bytes. */
export const listFiles = async (context: GitContext, tree: Tree, ...options: string[]): Promise<string[]> => {
  const { stdout } = await runGit(context, tree, ["ls-files", "-z", ...options], { encoding: "latin1" });
  return stdout.split("\0").filter((entry) => entry !== "");
};

/** Puts entries into the index: a mode, an id, a tab and a path in bytes. */
export const stageEntries = async (context: GitContext, tree: Tree, entries: readonly string[]) => {
  const input = pathList(entries);
  if (entries.length > 0) await runGit(context, tree, ["update-index", "-z", "--index-info"], { input });
};

/** An index of its own that has a tree or the files of a commit, in the scratch. */
export const indexOfTree = async (context: GitContext, tree: Tree, treeish: string) => {
  const indexed = { ...tree, index: join(scratchOf(tree.ownDir), "tree.index") };
  await runGit(context, indexed, ["read-tree", treeish]);
  return indexed;
};

/** Keeps git from reading files again that are as new, to the second, as its index. `again`: paths (bytes) to write before. */
export const settleIndex = async (context: GitContext, tree: Tree, again: readonly string[] = []) => {
  const rules = ["text", "eol=crlf", "eol=lf", "ident"].map((rule) => `:(attr:${rule})`);
  const input = pathList(again);
  if (again.length > 0)
    await runGit(context, tree, ["checkout-index", "--force", "-u", "-z", "--stdin"], { input });
  if ((await runGitOrNull(context, tree, ["diff-files", "--quiet", "--", ...rules])) !== null) return;
  await setTimeout(1000 - (Date.now() % 1000), undefined, { signal: context.signal });
  await utimes(tree.index ?? indexOf(tree.ownDir), new Date(), new Date());
};
