import { readdir, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { gitDirVariables, runGit, type GitContext } from "./git-context.ts";

type Check = { gitDir: string; lockFd: number; signal: AbortSignal };

/**
 * Whether a cached clone is damaged (by a crash of the machine, a deletion), of which git's failure may be the sign. Only
 * a check says so: git reports much the same when the connection broke or the disk is full.
 */
export const isDamaged = async (context: GitContext, error: unknown, check: Check): Promise<boolean> => {
  if (!mayBeDamage(error)) return false;
  const { gitDir, lockFd: inheritFd, signal } = check;
  await dropEmptyObjects(gitDir);
  // Everything that refs need is there, and what git's message names can be read.
  const named = error.said.match(/\b[0-9a-f]{40}\b/g) ?? [];
  const call = { variables: gitDirVariables(gitDir), inheritFd, signal, onOutput: () => undefined };
  try {
    await runGit(context, ["fsck", "--connectivity-only", "--no-dangling", "--no-reflogs"], call);
    await runGit(context, ["cat-file", "--batch"], { ...call, input: named.map((id) => `${id}\n`).join("") });
    return false;
  } catch (found) {
    if (found instanceof GitError && found.ended === "exited") return true;
    signal.throwIfAborted();
    return false;
  }
};

export const mayBeDamage = (error: unknown): error is GitError => {
  if (!(error instanceof GitError)) return false;
  // Lines of the server are about its own repository, these two about what came over the network.
  const local = error.said.split("\n").filter((line) => !/^remote:|fetch-pack|unpack-objects/.test(line));
  return local.some((line) => signs.test(line));
};

const signs =
  /(object|pack|tree|blob|commit|index file|inflate|reference|ref)\b.*(corrupt|is empty|broken|missing|too small|truncated|cannot be|invalid)|bad (object|tree|signature)|unable to (read|resolve reference|parse)|not a git repository: '|did not send all necessary|invalid sha1 pointer|missing necessary objects|unexpected line in/i;

/** Removes object files that a crash left empty: they keep git from writing the object. */
const dropEmptyObjects = async (gitDir: string): Promise<void> => {
  for (const entry of await readdir(join(gitDir, "objects"), { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    if (entry.isFile() && /^[0-9a-f]{38}$/.test(entry.name) && (await stat(file)).size === 0)
      await rm(file, { force: true });
  }
};
