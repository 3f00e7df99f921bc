import { existsSync } from "node:fs";
import { lstat, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { type AgentClone, basicsOf, bringReadable, readAgentClone } from "./clone.ts";
import type { GitContext } from "./git-context.ts";
import { borrowObjects, removeLocks, replace, restoreGitDirectory } from "./git-directory.ts";
import { importCommits } from "./import.ts";
import { runtimeFiles } from "./left-out.ts";
import { ownDirectory, readOwner, type OwnerFile } from "./owner-file.ts";
import { NotCaptured, RepoError, type Worktree } from "./repos.ts";
import { generationOf, remoteIds } from "./saved.ts";
import { emptyScratch } from "./wall.ts";

/**
 * Readies the service's git directory of a worktree, whose directory must exist, and reads the agent's clone.
 * @throws RepoError when the cached clone is missing, or the agent's clone leads out of the worktree
 */
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
  const isNew = !existsSync(ownDir);
  await restoreGitDirectory(context, ownDir, basicsOf(worktree));
  await removeLocks(ownDir);
  await replace(join(ownDir, "info", "exclude"), [...runtimeFiles, ...agent.exclude, ""].join("\n"));
  // Not the agent's clone: only git behind the wall reads its objects, until they are brought in as a pack.
  const real = ownDirectory(context, worktree.worktreeId);
  const lenders = [...(repoKey === null ? [] : [cacheDir]), ...(real === ownDir ? [] : [real])];
  await borrowObjects(ownDir, lenders);
  await emptyScratch(ownDir);
  const generation = await generationOf(cacheDir);
  const earlier = isNew ? generation : await generationOf(real);
  if (earlier !== generation) await keepBorrowed(context, worktree, { agent, lenders, earlier });
  if (isNew || earlier !== generation) await replace(join(ownDir, "generation"), generation);
  return { agent, owned };
};

/** Gives a worktree what it borrowed from a clone that another one has replaced, from where that is now. */
const keepBorrowed = async (
  context: GitContext,
  worktree: Worktree,
  { agent, lenders, earlier }: { agent: AgentClone; lenders: string[]; earlier: string },
): Promise<void> => {
  const { cacheDir, ownDir: where, baseSha } = worktree;
  const beside = await readdir(dirname(cacheDir)).catch(() => []);
  const replaced: string[] = [];
  for (const name of beside.filter((each) => /^damaged-.*\.git$/.test(each))) {
    const gitDir = join(dirname(cacheDir), name);
    if ((await generationOf(gitDir)) === earlier) replaced.push(gitDir);
  }
  if (replaced.length === 0) return;
  // The agent's commits tell what they build on.
  await borrowObjects(where, [...lenders, ...replaced]);
  await importCommits(context, worktree, agent.tips).catch((error: unknown) => {
    if (!(error instanceof NotCaptured)) throw error;
  });
  await emptyScratch(where);
  await borrowObjects(where, lenders);
  const without = await remoteIds(cacheDir);
  const ids = new Set([baseSha ?? [], ...agent.tips, ...agent.refs.values()].flat());
  await bringReadable(context, [...ids], { where, lenders: replaced, without, into: where });
};
