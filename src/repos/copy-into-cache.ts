import { access, mkdir, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fetchOptions } from "./cache.ts";
import { cachedRefs } from "./clone.ts";
import { gitDirVariables, runGit, serverOptions, type GitContext } from "./git-context.ts";
import { canonicalConfig, makeGitDirectory, restoreGitDirectory } from "./git-directory.ts";
import { withoutLeftovers } from "./leftovers.ts";
import { RepoError, type Worktree } from "./repos.ts";
import { withRepositoryLock } from "./repository-lock.ts";

/**
 * Copies commits of a worktree into the cached clone, where they outlive the worktree. Takes the lock, overwrites the
 * refs, and reads them back.
 */
export const copyIntoCache = async (
  context: GitContext,
  { worktree, refs, signal }: { worktree: Worktree; refs: Record<string, string>; signal: AbortSignal },
): Promise<void> => {
  const { repoKey: key, repoUrl: url, cacheDir } = worktree;
  const wanted = Object.entries(refs);
  if (wanted.length === 0) return;
  const locked = { key, url, reason: "worktree_failed" as const, signal };
  await withRepositoryLock(context, locked, async ({ lockFd, lost, signal: until }) => {
    const config = canonicalConfig(context.settings, { url: url || null, bare: true });
    if (key === null && !(await exists(cacheDir)))
      await makeGitDirectory(cacheDir, { config, head: "refs/heads/main" });
    await restoreGitDirectory(cacheDir, { config, head: "refs/heads/main" });
    const server = serverOptions(worktree.ownDir, "upload-pack");
    const refspecs = wanted.map(([ref, commit]) => `+${commit}:${ref}`);
    const args = ["fetch", ...fetchOptions, ...server, "--", worktree.ownDir, ...refspecs];
    const variables = { GIT_ALLOW_PROTOCOL: "file", ...gitDirVariables(cacheDir) };
    await withoutLeftovers(cacheDir, lost, () =>
      runGit(context, args, { variables, inheritFd: lockFd, signal: until }),
    );
    const found = await cachedRefs(context, { cacheDir, names: Object.keys(refs), signal: until });
    const lacking = wanted.filter(
      ([ref, commit]) => !found.some(({ name, sha }) => name === ref && sha === commit),
    );
    if (lacking.length === 0) return noteTime(cacheDir, Object.keys(refs));
    const names = lacking.map(([ref]) => ref).join(" and ");
    throw new RepoError("worktree_failed", `git did not write ${names} into the cached clone ${cacheDir}`);
  });
};

/** The time of saving is that of the ref's log, which git deletes with the ref: the date of a commit is the agent's. */
const noteTime = async (cacheDir: string, refs: string[]): Promise<void> => {
  for (const log of refs.map((ref) => join(cacheDir, "logs", ref))) {
    await mkdir(dirname(log), { recursive: true });
    await writeFile(log, "", { flag: "a" });
    await utimes(log, new Date(), new Date());
  }
};

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
