import { readdir, rm, stat } from "node:fs/promises";
import { join, relative } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { GitError } from "../lib/git.ts";

/** Age in seconds past which a lock file that git left belongs to nobody: git holds one for less than a second. */
const staleAfterSeconds = 10;

/**
 * Runs git, and when it finds one of its own lock files in the way, waits until that file is gone or so old that its
 * maker must have been killed, removes it then and runs git again. To be called with the repository's lock held: then the
 * maker can only be the git of an agent.
 */
export const pastStaleLocks = async <Value>(
  gitDir: string,
  signal: AbortSignal,
  action: () => Promise<Value>,
): Promise<Value> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await action();
    } catch (error) {
      const file = blockingLock(error);
      if (file === null || attempt === 5 || relative(gitDir, file).startsWith("..")) throw error;
      await outlive(file, signal);
    }
  }
};

/** The lock file that git complained of, or null when it failed for another reason. */
export const blockingLock = (error: unknown): string | null =>
  error instanceof GitError
    ? (/Unable to create '(\/[^']+\.lock)': File exists/.exec(error.said)?.[1] ?? null)
    : null;

const outlive = async (file: string, signal: AbortSignal): Promise<void> => {
  for (;;) {
    const found = await stat(file).catch(() => null);
    if (found === null) return;
    if (Date.now() - found.mtimeMs > staleAfterSeconds * 1000) return rm(file, { force: true });
    await delay(100, undefined, { signal });
  }
};

/** Removes half-made clones and packs that a crash left. To be called with the repository's lock held. */
export const removeHalfMade = async (cacheDirectory: string): Promise<void> => {
  for (const name of await readdir(cacheDirectory)) {
    if (name.startsWith("clone-")) await rm(join(cacheDirectory, name), { recursive: true, force: true });
  }
  const packs = join(cacheDirectory, "repo.git", "objects", "pack");
  for (const name of await readdir(packs).catch(() => [])) {
    // Younger ones may belong to an agent that fetches.
    if (name.startsWith("tmp_") && (await ageSeconds(join(packs, name))) > 3600)
      await rm(join(packs, name), { force: true });
  }
};

const ageSeconds = async (path: string): Promise<number> => {
  const found = await stat(path).catch(() => null);
  return found === null ? 0 : (Date.now() - found.mtimeMs) / 1000;
};
