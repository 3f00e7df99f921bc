import { lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { addAll, type AddAll } from "./add-all.ts";
import { submodulesOf } from "./index-flags.ts";
import { runGit, type Room } from "./room.ts";

type Nested = AddAll & {
  index: string;
  said: string;
  /** Those that stay what they are: submodules. Paths as in the index (latin1). */
  keep: ReadonlySet<string>;
};

/**
 * Repositories that an agent cloned or made inside its worktree: git would note their commit only, or nothing, and their
 * files would be lost. `said` is what git said when everything was added to the index; their files are added as well.
 */
export const addNested = async (room: Room, nested: Nested): Promise<void> => {
  const { index, said, keep, signal } = nested;
  const variables = { ...nested.variables, GIT_INDEX_FILE: index };
  const noted = (await submodulesOf(index)).filter((path) => !keep.has(path)).flatMap(asName);
  for (const name of new Set([...noted, ...namesWithoutCommit(said)])) {
    const tree = await treeOf(room, {
      variables,
      index: `${index}.nested`,
      root: join(nested.root, name),
      signal,
    });
    // A submodule that was never checked out.
    if (tree === null) continue;
    await runGit(room, ["update-index", "--force-remove", "--", name], { variables, signal });
    await runGit(room, ["read-tree", `--prefix=${name}/`, tree], { variables, signal });
  }
};

/** What is not UTF-8 cannot be named to git; such a one stays as it is, and is found there by who has to save it. */
const asName = (path: string): string[] => {
  const name = Buffer.from(path, "latin1").toString();
  return Buffer.from(name).toString("latin1") === path ? [name] : [];
};

const namesWithoutCommit = (said: string): string[] =>
  [...said.matchAll(/^error: '(.+)' does not have a commit checked out$/gm)]
    .map(([, name = ""]) => name.replace(/\/+$/, ""))
    .filter((name) => name !== "");

/** Null: there is nothing. */
const treeOf = async (
  room: Room,
  { index, root, ...rest }: Omit<Nested, "said" | "keep">,
): Promise<string | null> => {
  const names = (await lstat(root).catch(() => null))?.isDirectory() === true ? await readdir(root) : [];
  if (names.length === 0) return null;
  const { signal } = rest;
  const variables = { ...rest.variables, GIT_WORK_TREE: root, GIT_INDEX_FILE: index };
  try {
    const said = await addAll(room, { root, variables, signal });
    // Repositories inside of this one.
    await addNested(room, { root, variables, index, said, keep: new Set(), signal });
    return (await runGit(room, ["write-tree"], { variables, signal })).stdout.trim();
  } finally {
    for (const file of [index, `${index}.lock`]) await rm(file, { force: true });
  }
};
