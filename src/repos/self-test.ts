import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { locksWork } from "../lib/file-lock.ts";
import { git } from "../lib/git.ts";
import type { RepoSettings } from "./git-context.ts";

type SelfTest = {
  settings: Pick<RepoSettings, "reposRoot" | "worktreeRoot">;
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  /** Makes no directory and tries no lock, which would make a file. */
  readOnly?: boolean;
};

/** Checks at the start that this machine can work with repositories. Resolves to the problems, a sentence each. */
export const selfTest = async ({ settings, env, signal, readOnly = false }: SelfTest): Promise<string[]> => {
  const found = await Promise.all([
    checkGit(env, signal),
    ...(readOnly ? [] : [checkLock(settings.reposRoot), checkRoot(settings.worktreeRoot)]),
  ]);
  return found.filter((problem) => problem !== null);
};

const checkGit = async (env: NodeJS.ProcessEnv, signal: AbortSignal): Promise<string | null> => {
  try {
    const { stdout } = await git(["version"], { env, signal, timeoutSeconds: 10 });
    const [, major, minor] = /(\d+)\.(\d+)/.exec(stdout) ?? [];
    if (Number(major) * 1000 + Number(minor) >= 2036) return null;
    return `git 2.36 or later is needed; found: ${stdout.trim()}.`;
  } catch (error) {
    signal.throwIfAborted();
    return error instanceof Error ? error.message : String(error);
  }
};

const checkLock = async (reposRoot: string): Promise<string | null> => {
  try {
    await mkdir(reposRoot, { recursive: true, mode: 0o700 });
    if (await locksWork(join(reposRoot, ".lock-test"))) return null;
    return `The file system of SERVICE_REPOS_ROOT (${reposRoot}) does not support locks; use another one, or mount it with locking.`;
  } catch (error) {
    return `SERVICE_REPOS_ROOT (${reposRoot}) cannot be used: ${error instanceof Error ? error.message : String(error)}.`;
  }
};

const checkRoot = async (worktreeRoot: string): Promise<string | null> => {
  try {
    await mkdir(join(worktreeRoot, ".owned"), { recursive: true, mode: 0o700 });
    return null;
  } catch (error) {
    return `SERVICE_WORKTREE_ROOT (${worktreeRoot}) cannot be used: ${error instanceof Error ? error.message : String(error)}.`;
  }
};
