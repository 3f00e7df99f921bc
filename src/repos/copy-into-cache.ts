import { access, mkdir, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { GitError } from "../lib/git.ts";
import { allBranches, fetchOptions } from "./cache.ts";
import { cachedRefs } from "./clone.ts";
import { gitDirVariables, runGit, serverOptions, withNetwork, type GitContext } from "./git-context.ts";
import { canonicalConfig, makeGitDirectory, restoreGitDirectory } from "./git-directory.ts";
import { withoutLeftovers } from "./leftovers.ts";
import { NotCaptured, RepoError, type Worktree } from "./repos.ts";
import { withRepositoryLock } from "./repository-lock.ts";

/**
 * Copies commits of a worktree into the cached clone, where they outlive the worktree. Takes the lock, overwrites the
 * refs, and reads them back: git leaves out a ref on a shallow history, and ends with exit code 0.
 */
export const copyIntoCache = async (
  context: GitContext,
  { worktree, refs, signal }: { worktree: Worktree; refs: Record<string, string>; signal: AbortSignal },
): Promise<void> => {
  const { repoKey: key, repoUrl: url, cacheDir } = worktree;
  const wanted = Object.entries(refs);
  if (wanted.length === 0) return;
  const isShallow = await completeHistory(context, worktree, signal);
  const locked = { key, url, reason: "worktree_failed" as const, signal };
  await withRepositoryLock(context, locked, async ({ lockFd, lost, signal: until }) => {
    const config = canonicalConfig(context.settings, { url: url || null, bare: true });
    if (key === null && !(await exists(cacheDir)))
      await makeGitDirectory(cacheDir, { config, head: "refs/heads/main" });
    await restoreGitDirectory(cacheDir, { config, head: "refs/heads/main" });
    const server = serverOptions(worktree.gitDir, "upload-pack");
    const refspecs = wanted.map(([ref, commit]) => `+${commit}:${ref}`);
    const args = ["fetch", ...fetchOptions, ...server, "--", worktree.gitDir, ...refspecs];
    const variables = { GIT_ALLOW_PROTOCOL: "file", ...gitDirVariables(cacheDir) };
    await withoutLeftovers(cacheDir, lost, () =>
      runGit(context, args, { variables, inheritFd: lockFd, signal: until }),
    ).catch((error: unknown) => {
      const isCut = error instanceof GitError && error.said.includes("did not send all necessary objects");
      if (!isShallow || !isCut) throw error;
    });
    const found = await cachedRefs(context, { cacheDir, names: Object.keys(refs), signal: until });
    const lacking = wanted.filter(
      ([ref, commit]) => !found.some(({ name, sha }) => name === ref && sha === commit),
    );
    if (lacking.length === 0) return noteTime(cacheDir, Object.keys(refs));
    if (isShallow) throw new NotCaptured(shallow);
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

const shallow = "a history that the agent's shallow fetch cut, and that the remote could not complete";

/** Fetches what an agent's `git fetch --depth` left out. Resolves to whether the history is still cut. */
const completeHistory = async (
  context: GitContext,
  { gitDir, repoUrl: url }: Worktree,
  signal: AbortSignal,
): Promise<boolean> => {
  const isShallow = (): Promise<boolean> => exists(join(gitDir, "shallow"));
  if (url === "" || !(await isShallow())) return isShallow();
  const server = serverOptions(url, "upload-pack");
  const args = ["fetch", "--unshallow", ...fetchOptions, ...server, "--", url, allBranches];
  await withNetwork(context, { url, signal }, (access) =>
    runGit(context, args, {
      ...access,
      variables: { ...access.variables, ...gitDirVariables(gitDir) },
      signal,
    }),
  ).catch(() => signal.throwIfAborted());
  return isShallow();
};

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
