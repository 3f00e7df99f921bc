import { mkdir, lstat, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { fetchRepo } from "./cache.ts";
import { specialEntries } from "./checkout-care.ts";
import { cachedRefs, remoteRefs } from "./clone.ts";
import { asRepoError } from "./failure.ts";
import { gitDirVariables, runGit, type GitContext } from "./git-context.ts";
import { defaultBranch, resolveBase } from "./ref.ts";
import { RepoError, type FilesRequest } from "./repos.ts";

/** See the port. */
export const checkOutFiles = async (context: GitContext, request: FilesRequest): Promise<string> => {
  const { url, ref, into, signal } = request;
  const repo = await fetchRepo(context, { url, signal, allowLocal: true });
  try {
    const refs = await cachedRefs(context, { cacheDir: repo.gitDir, names: remoteRefs, signal });
    const baseRef = ref || ((await defaultBranch(context, { repo, signal })) ?? "");
    const { baseSha: commit } = await resolveBase(context, { repo, baseRef, refs, signal });
    if (commit === null) throw new RepoError("worktree_failed", `The repository ${url} has no commit.`);
    const directory = join(into, commit);
    if ((await lstat(directory).catch(() => null)) === null)
      await writeFiles(context, { gitDir: repo.gitDir, repoUrl: url, commit, directory, signal });
    return commit;
  } catch (error) {
    throw asRepoError(error, { reason: "worktree_failed", what: `check out ${url}`, signal });
  }
};

type Files = { gitDir: string; repoUrl: string; commit: string; directory: string; signal: AbortSignal };

/** The directory gets its name when it is complete. */
const writeFiles = async (context: GitContext, files: Files): Promise<void> => {
  const { gitDir, commit, directory, signal } = files;
  await specialEntries(context, { worktree: { ...files, ownDir: gitDir }, commit, signal });
  const half = `${directory}.new`;
  const index = `${directory}.index`;
  try {
    await rm(half, { recursive: true, force: true });
    await mkdir(half, { recursive: true, mode: 0o700 });
    const variables = { ...gitDirVariables(gitDir), GIT_WORK_TREE: half, GIT_INDEX_FILE: index };
    await runGit(context, ["read-tree", "--reset", "-u", commit], { variables, cwd: half, signal });
    await rename(half, directory);
  } finally {
    await rm(index, { force: true });
    await rm(half, { recursive: true, force: true });
  }
};
