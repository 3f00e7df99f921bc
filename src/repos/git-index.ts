import { type GitContext, runGit } from "./git-context.ts";
import { pathList } from "./path-bytes.ts";
import type { Tree } from "./wall.ts";

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
