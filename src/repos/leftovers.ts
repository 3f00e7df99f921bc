import { lstat, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";

/**
 * Runs git on a cached clone whose lock the caller has. When it fails, what it left is removed: nobody else writes there.
 * It is tried once more when files of a git that was killed were in the way.
 */
export const withoutLeftovers = async <Value>(
  gitDir: string,
  lost: AbortSignal,
  action: () => Promise<Value>,
): Promise<Value> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await action();
    } catch (error) {
      if (lost.aborted) throw error;
      await removeLeftovers(gitDir);
      const said = error instanceof GitError ? error.said : "";
      if (attempt === 2 || !said.includes("File exists")) throw error;
    }
  }
};

/** Removes lock files of git and packs and objects that are not whole. No git may be at work in it. */
export const removeLeftovers = async (gitDir: string): Promise<void> => {
  await removeLocks(gitDir);
  await removeBelow(join(gitDir, "objects"), (name) => name.startsWith("tmp_"));
};

/** Removes what a git that was killed locked. No git may be at work in it. */
export const removeLocks = async (gitDir: string): Promise<void> => {
  const isLock = (name: string): boolean => name.endsWith(".lock");
  for (const name of await readdir(gitDir).catch(() => []))
    if (isLock(name) || name === "packed-refs.new")
      await rm(join(gitDir, name), { recursive: true, force: true });
  await removeBelow(join(gitDir, "refs"), isLock);
};

/** Follows no link: an agent may have made one. */
const removeBelow = async (directory: string, isLeft: (name: string) => boolean): Promise<void> => {
  if ((await lstat(directory).catch(() => null))?.isDirectory() !== true) return;
  for (const name of await readdir(directory)) {
    const path = join(directory, name);
    if (isLeft(name)) await rm(path, { recursive: true, force: true });
    else await removeBelow(path, isLeft);
  }
};
