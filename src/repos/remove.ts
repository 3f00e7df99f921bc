import { lstat, rename } from "node:fs/promises";
import { join } from "node:path";
import { runCommand, type CommandResult } from "../lib/command.ts";
import { asRepoError } from "./failure.ts";
import type { GitContext } from "./git-context.ts";
import { readOwner, removeOwner, worktreePath } from "./owner-file.ts";

/**
 * Removes a worktree that has an owner file, and nothing else. Each step can be repeated. The owner file is removed last:
 * the next call finishes an interrupted removal.
 */
export const removeWorktree = async (
  context: GitContext,
  worktreeId: string,
  signal: AbortSignal,
): Promise<void> => {
  try {
    await removeDirectory(context, worktreeId);
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `remove the worktree ${worktreeId}`,
      signal,
    });
  }
};

export const removeDirectory = async (context: GitContext, worktreeId: string): Promise<void> => {
  if ((await readOwner(context, worktreeId)) === null) return;
  // Renamed first: a half-removed directory must not look like a worktree in which files were deleted.
  const trash = join(context.settings.worktreeRoot, ".owned", `${worktreeId}.trash`);
  await removeTree(trash);
  await rename(worktreePath(context, worktreeId), trash).catch((error: unknown) => {
    if (!(error instanceof Error) || !("code" in error) || error.code !== "ENOENT") throw error;
  });
  await removeTree(trash);
  await removeOwner(context, worktreeId);
};

/**
 * Removes a tree without following links, also directories that an agent made read-only. Uses `rm`: a large tree would
 * block this process for seconds, and Node cannot name files below the system's path limit of 4,096 bytes.
 */
export const removeTree = async (path: string): Promise<void> => {
  if ((await lstat(path).catch(() => null)) === null) return;
  if ((await run("rm", ["-rf", "--", path])).exitCode === 0) return;
  await openTree(path);
  const { exitCode, stderr } = await run("rm", ["-rf", "--", path]);
  if (exitCode !== 0) throw new Error(`${path} could not be removed: ${stderr.slice(0, 1000)}`);
};

/** Gives the owner read, write and search permission in the whole tree. Does not follow links. */
export const openTree = (path: string): Promise<CommandResult> => run("chmod", ["-R", "u+rwX", "--", path]);

const run = (program: "rm" | "chmod", args: string[]): Promise<CommandResult> =>
  runCommand({
    command: `/bin/${program}`,
    args,
    cwd: "/",
    env: { LC_ALL: "C" },
    timeoutSeconds: 3600,
    signal: new AbortController().signal,
  });
