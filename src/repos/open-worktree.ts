import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { type AgentClone, basicsOf, readAgentClone } from "./clone.ts";
import type { GitContext } from "./git-context.ts";
import { borrowObjects, removeLocks, replace, restoreGitDirectory } from "./git-directory.ts";
import { ownDirectory, readOwner, type OwnerFile } from "./owner-file.ts";
import { RepoError, runtimeFiles, type Worktree } from "./repos.ts";
import { emptyScratch } from "./wall.ts";

/** Readies the service's git directory of a worktree, whose directory must exist, and reads the agent's clone. */
export const openWorktree = async (
  context: GitContext,
  worktree: Worktree,
  how: { filesOnly?: boolean } = {},
): Promise<{ agent: AgentClone; owned: OwnerFile | null }> => {
  const { cacheDir, repoKey, path, ownDir } = worktree;
  if (repoKey !== null && (await lstat(cacheDir).catch(() => null)) === null)
    throw new RepoError(
      "worktree_failed",
      `The cached clone ${cacheDir} was deleted while its worktree ${path} was in use. The files are still there: copy what is needed, and submit the task again.`,
    );
  const agent = await readAgentClone(context, worktree, how);
  const owned = await readOwner(context, worktree.worktreeId);
  await restoreGitDirectory(context, ownDir, basicsOf(worktree));
  await removeLocks(ownDir);
  await replace(join(ownDir, "info", "exclude"), [...runtimeFiles, ...agent.exclude, ""].join("\n"));
  // Not the agent's clone: only git behind the wall reads its objects, until they are brought in as a pack.
  const real = ownDirectory(context, worktree.worktreeId);
  await borrowObjects(ownDir, [...(repoKey === null ? [] : [cacheDir]), ...(real === ownDir ? [] : [real])]);
  await emptyScratch(ownDir);
  return { agent, owned };
};
