import { lstat, rm } from "node:fs/promises";
import { join } from "node:path";
import { addAll, type AddAll } from "./add-all.ts";
import { runGit, type Room } from "./room.ts";

type Nested = AddAll & { index: string; said: string };

/**
 * Repositories that an agent cloned or made inside its worktree: git would note their commit only, or nothing, and their
 * files would be lost. `said` is what git said when everything was added to the index; their files are added as well.
 */
export const addNested = async (room: Room, nested: Nested): Promise<void> => {
  const { index, said, signal } = nested;
  const variables = { ...nested.variables, GIT_INDEX_FILE: index };
  for (const name of nestedNames(said)) {
    const tree = await treeOf(room, {
      variables,
      index: `${index}.nested`,
      root: join(nested.root, name),
      signal,
    });
    if (tree === null) continue;
    await runGit(room, ["update-index", "--force-remove", "--", name], { variables, signal });
    await runGit(room, ["read-tree", `--prefix=${name}/`, tree], { variables, signal });
  }
};

const nestedNames = (said: string): string[] => {
  const found = said.matchAll(
    /^(?:warning: adding embedded git repository: (.+)|error: '(.+)' does not have a commit checked out)$/gm,
  );
  const names = [...found].map((match) => (match[1] ?? match[2] ?? "").replace(/\/+$/, ""));
  return [...new Set(names.filter((name) => name !== ""))];
};

const treeOf = async (room: Room, { index, root, ...rest }: Omit<Nested, "said">): Promise<string | null> => {
  if ((await lstat(root).catch(() => null))?.isDirectory() !== true) return null;
  const { signal } = rest;
  const variables = { ...rest.variables, GIT_WORK_TREE: root, GIT_INDEX_FILE: index };
  try {
    const said = await addAll(room, { root, variables, signal });
    // Repositories inside of this one.
    await addNested(room, { root, variables, index, said, signal });
    return (await runGit(room, ["write-tree"], { variables, signal })).stdout.trim();
  } finally {
    for (const file of [index, `${index}.lock`]) await rm(file, { force: true });
  }
};
