import { lstat, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { nonBlocking } from "../lib/non-blocking.ts";
import { gitDirVariables, runGit, type GitContext } from "./git-context.ts";
import { borrowObjects, canonicalConfig, makeGitDirectory, restoreGitDirectory } from "./git-directory.ts";
import { removeLocks } from "./leftovers.ts";
import { readOwner, type OwnerFile } from "./owner-file.ts";
import { NotCaptured, RepoError, type Worktree } from "./repos.ts";

/** Makes git use this clone, whatever an agent wrote into the working directory. */
export const worktreeVariables = ({
  path,
  gitDir,
}: Pick<Worktree, "path" | "gitDir">): Record<string, string> => ({
  ...gitDirVariables(gitDir),
  GIT_WORK_TREE: path,
});

/** A symbolic link does not count: it may lead anywhere. */
export const hasDirectory = async ({ path }: Pick<Worktree, "path">): Promise<boolean> =>
  (await lstat(path).catch(() => null))?.isDirectory() === true;

/** Refs of a clone. `commit`: the commit of an annotated tag, else the same as `sha`. */
export type Refs = { sha: string; name: string; commit: string }[];

/** Refs of the cached clone under these prefixes. Empty when there is no cache. */
export const cachedRefs = async (
  context: GitContext,
  { cacheDir, names, signal }: { cacheDir: string; names: string[]; signal: AbortSignal },
): Promise<Refs> => {
  if ((await lstat(cacheDir).catch(() => null)) === null) return [];
  const args = ["for-each-ref", "--format=%(objectname) %(refname) %(*objectname)", ...names];
  const { stdout } = await runGit(context, args, {
    variables: gitDirVariables(cacheDir),
    maxOutputBytes: 256 * 1024 * 1024,
    signal,
  });
  return stdout.split("\n").flatMap((line) => {
    const [sha = "", name, peeled] = line.split(" ");
    return name === undefined ? [] : [{ sha, name, commit: peeled || sha }];
  });
};

/** Prefixes of the refs that a worktree's clone copies from the cached clone. */
export const remoteRefs = ["refs/remotes/origin", "refs/tags"];

const configOf = ({ settings }: GitContext, { repoKey, repoUrl }: Worktree): string =>
  canonicalConfig(settings, { url: repoKey === null ? null : repoUrl, bare: false });

const headOf = ({ branch }: Worktree): string => `refs/heads/${branch}`;

/** The clones whose objects a worktree borrows. */
export const lendersOf = ({ worktree, source }: Pick<OwnerFile, "worktree" | "source">): string[] => [
  worktree.cacheDir,
  ...(source === null ? [] : [join(dirname(worktree.path), source, ".git")]),
];

/** Makes the git directory of a worktree, which borrows the cache's objects. `start`: first commit of its branch. */
export const makeClone = async (
  context: GitContext,
  owned: Pick<OwnerFile, "worktree" | "source">,
  { refs, start }: { refs: Refs; start: string | null },
): Promise<void> => {
  const { worktree } = owned;
  const { gitDir } = worktree;
  await makeGitDirectory(gitDir, { config: configOf(context, worktree), head: headOf(worktree) });
  await borrowObjects(gitDir, lendersOf(owned));
  const all = start === null ? refs : [...refs, { sha: start, name: headOf(worktree) }];
  await writeFile(join(gitDir, "packed-refs"), all.map(({ sha, name }) => `${sha} ${name}\n`).join(""));
};

/**
 * Makes a clone safe to run git in after its agent has ended: restores its configuration and alternates, and removes lock
 * files and programs that git would run. Commits and files stay. The worktree's directory must exist.
 * @throws NotCaptured when `.git` is no directory; RepoError when the cached clone is missing
 */
export const reclaim = async (context: GitContext, worktree: Worktree): Promise<OwnerFile | null> => {
  const { gitDir, worktreeId } = worktree;
  await restoreCacheOf(context, worktree);
  const owned = await readOwner(context, worktreeId);
  const found = await lstat(gitDir).catch(() => null);
  if (found === null) await recreateGitDirectory(context, worktree, owned);
  else if (!found.isDirectory())
    throw new NotCaptured(".git is not the directory any more that the service made");
  const head = headOf(worktree);
  await restoreGitDirectory(gitDir, { config: configOf(context, worktree), head });
  await borrowObjects(gitDir, lendersOf({ worktree, source: owned?.source ?? null }));
  await removeLocks(gitDir);
  const index = await lstat(join(gitDir, "index")).catch(() => null);
  if (index?.isFile() === false) await rm(join(gitDir, "index"), { recursive: true, force: true });
  return owned;
};

/** git also reads the refs and the configuration of the cached clone. */
const restoreCacheOf = async (context: GitContext, worktree: Worktree): Promise<void> => {
  const { cacheDir, repoKey, repoUrl: url, path } = worktree;
  if (repoKey === null) return;
  if ((await lstat(cacheDir).catch(() => null)) === null)
    throw new RepoError(
      "worktree_failed",
      `The cached clone ${cacheDir} was deleted while its worktree ${path} was in use. The files are still there: copy what is needed, and submit the task again.`,
    );
  const config = canonicalConfig(context.settings, { url, bare: true });
  await restoreGitDirectory(cacheDir, { config, head: "refs/heads/main" });
};

/** For an agent that deleted `.git`: its files then count as changes since the base. */
const recreateGitDirectory = async (
  context: GitContext,
  worktree: Worktree,
  owned: OwnerFile | null,
): Promise<void> => {
  const { cacheDir, baseSha } = worktree;
  const signal = AbortSignal.timeout(context.settings.gitTimeout * 1000);
  const refs = await cachedRefs(context, { cacheDir, names: remoteRefs, signal });
  await makeClone(context, { worktree, source: owned?.source ?? null }, { refs, start: baseSha });
};

/** Empty: there is no such file. */
export const textOf = (file: string): Promise<string> =>
  readFile(file, { encoding: "latin1", flag: nonBlocking.read }).catch(() => "");
