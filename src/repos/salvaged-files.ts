import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { pack } from "./archive.ts";
import { ownedDirectory } from "./marker.ts";
import { beside } from "./repositories-inside.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import type { Contents } from "./snapshot.ts";
import { shownPath } from "./tree.ts";
import { worktreeVariables } from "./worktree-links.ts";

type Salvaged = { worktree: Worktree; state: Contents; signal: AbortSignal };

/**
 * The tree of a salvage commit: the files of a worktree, and in a folder of its own, as archives, what git cannot take as
 * files: the histories of other repositories and paths that it refuses. Only read, byte by byte: nothing in such a
 * repository is believed or run.
 */
export const withSalvagedFiles = async (
  room: Room,
  { worktree, state, signal }: Salvaged,
): Promise<string> => {
  const { submodules, replaced } = await beside(room, worktree);
  const inside = [...new Set([...state.repositories, ...state.passedOver])];
  const archives = [
    { name: "files.tar", directory: worktree.path, names: inside },
    { name: "submodules.tar", directory: worktree.gitDir, names: submodules },
    { name: "replaced.tar", directory: ownedDirectory(room), names: replaced },
  ].filter(({ names }) => names.length > 0);
  if (archives.length === 0) return state.tree;
  const text = describe(
    archives.flatMap(({ name, names }) => names.map((path) => ({ archive: name, path }))),
  );
  const temporary = join(worktree.gitDir, `service-${randomUUID()}`);
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: `${temporary}.index` };
  const call = { variables, signal };
  const store = async (args: string[], input?: string): Promise<string> =>
    (await runGit(room, ["hash-object", "-w", ...args], { ...call, input })).stdout.trim();
  try {
    const folder = await freeFolder(room, state.tree, call);
    const lines = [`100644 ${await store(["--stdin"], text)}\t${folder}/README.txt\n`];
    for (const { name, directory, names } of archives) {
      const file = `${temporary}.tar`;
      await pack(room, { directory, names, file, signal });
      lines.push(`100644 ${await store(["--no-filters", "--", file])}\t${folder}/${name}\n`);
    }
    await runGit(room, ["read-tree", state.tree], call);
    await runGit(room, ["update-index", "--add", "--index-info"], { ...call, input: lines.join("") });
    return (await runGit(room, ["write-tree"], call)).stdout.trim();
  } finally {
    for (const ending of [".index", ".index.lock", ".tar"])
      await rm(`${temporary}${ending}`, { force: true });
  }
};

/** A repository may have a folder of this name. */
const freeFolder = async (
  room: Room,
  tree: string,
  call: { variables: Record<string, string>; signal: AbortSignal },
): Promise<string> => {
  const { stdout } = await runGit(room, ["ls-tree", "-z", "--name-only", tree], call);
  const taken = new Set(stdout.split("\0"));
  let folder = ".salvaged";
  for (let count = 2; taken.has(folder); count += 1) folder = `.salvaged-${count}`;
  return folder;
};

/** Paths that are named at most. */
const most = 1000;

const describe = (found: { archive: string; path: string }[]): string => `\
What git could not take into this commit as files.

files.tar       repositories inside the worktree (each a .git), and paths that git refuses
submodules.tar  git directories of submodules, under modules/
replaced.tar    a repository that stood in place of the worktree's own

In a checkout of this commit, "tar -xf" of files.tar at its top puts everything back in its place. Unpack the others
elsewhere; these two take the commits out of a git directory, into any repository:
git config --file DIRECTORY/config --unset core.worktree
git fetch DIRECTORY +HEAD:refs/salvaged/HEAD '+refs/*:refs/salvaged/*'
They are as an agent left them: look at config and hooks before you run git in one.

${found
  .slice(0, most)
  .map(({ archive, path }) => `${archive}: ${shownPath(path)}\n`)
  .join("")}${found.length > most ? `and ${found.length - most} more\n` : ""}`;
