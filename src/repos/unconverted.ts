import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { canonicalConfig, makeGitDirectory } from "./git-directory.ts";
import type { Worktree } from "./repos.ts";
import type { Room } from "./room.ts";

/** Whether git gave up because a file is not in the encoding that `.gitattributes` says it has. */
export const isEncodingFault = (error: unknown): boolean =>
  error instanceof GitError && /fatal: (failed to encode|BOM is (required|prohibited))/.test(error.said);

type Unconverted<Value> = {
  worktree: Worktree;
  index: string;
  action: (variables: Record<string, string>) => Promise<Value>;
};

/**
 * Runs an action with variables that make git take files byte for byte, whatever encoding `.gitattributes` says they have:
 * only a git directory's own attributes overrule those, and the one of the worktree is shared with other jobs.
 */
export const unconverted = async <Value>(
  room: Room,
  { worktree, index, action }: Unconverted<Value>,
): Promise<Value> => {
  const gitDir = `${index}.git`;
  try {
    const config = canonicalConfig(room.settings, { url: null, bare: true });
    await makeGitDirectory(gitDir, { config, head: `refs/heads/${worktree.branch}` });
    await mkdir(join(gitDir, "info"));
    await writeFile(join(gitDir, "info", "attributes"), "* !working-tree-encoding\n");
    return await action({
      GIT_DIR: gitDir,
      GIT_COMMON_DIR: gitDir,
      GIT_OBJECT_DIRECTORY: join(worktree.commonDir, "objects"),
      GIT_WORK_TREE: worktree.path,
      GIT_INDEX_FILE: index,
    });
  } finally {
    await rm(gitDir, { recursive: true, force: true });
  }
};
