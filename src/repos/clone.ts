import { copyFile, lstat, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { nonBlocking } from "../lib/non-blocking.ts";
import { gitDirVariables, runGit, type GitContext } from "./git-context.ts";
import { borrowObjects, canonicalConfig, makeGitDirectory, restoreGitDirectory } from "./git-directory.ts";
import { oldScratchGitDir, readOwner, writeOwner, type OwnerFile } from "./owner-file.ts";
import { NotCaptured, RepoError, type Worktree } from "./repos.ts";

/** Makes git use this clone, whatever an agent wrote into the working directory. */
export const worktreeVariables = ({ path, gitDir }: Worktree): Record<string, string> => ({
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

const lendersOf = ({ worktree, source }: Pick<OwnerFile, "worktree" | "source">): string[] => [
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
  if (owned?.version === 1) await adopt(context, owned);
  const found = await lstat(gitDir).catch(() => null);
  if (found === null) await recreateGitDirectory(context, worktree, owned);
  else if (!found.isDirectory())
    throw new NotCaptured(".git is not the directory any more that the service made");
  const head = headOf(worktree);
  await restoreGitDirectory(gitDir, { config: configOf(context, worktree), head });
  await borrowObjects(gitDir, lendersOf({ worktree, source: owned?.source ?? null }));
  for (const name of ["index.lock", "HEAD.lock"])
    await rm(join(gitDir, name), { recursive: true, force: true });
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

/**
 * Turns a worktree of an older version into a clone. Its git directory was in the cached clone or, without a repository,
 * beside its owner file. Each step can be repeated after a crash.
 */
const adopt = async (context: GitContext, owned: OwnerFile): Promise<void> => {
  const { worktree, admin } = owned;
  const { gitDir, cacheDir, worktreeId, repoKey } = worktree;
  const isFile = (await lstat(gitDir).catch(() => null))?.isDirectory() !== true;
  if (isFile && repoKey === null) {
    await rm(gitDir, { force: true });
    await rename(oldScratchGitDir(context, worktreeId), gitDir);
  }
  const old = join(cacheDir, "worktrees", admin ?? worktreeId);
  if (isFile && repoKey !== null) {
    // The directory may belong to a worktree of another instance.
    const isOwn = (await textOf(join(old, "gitdir"))) === `${gitDir}\n`;
    await rm(gitDir, { force: true });
    await adoptFrom(context, owned, isOwn ? old : null);
    if (isOwn) await rm(old, { recursive: true, force: true });
  }
  await writeOwner(context, owned);
};

const adoptFrom = async (context: GitContext, owned: OwnerFile, old: string | null): Promise<void> => {
  const { worktree } = owned;
  const { cacheDir, baseSha, gitDir } = worktree;
  const head = old === null ? "" : await textOf(join(old, "HEAD"));
  const named = /^ref: (refs\/heads\/\S+)\n$/.exec(head)?.[1];
  const names = [...remoteRefs, headOf(worktree), ...(named === undefined ? [] : [named])];
  const signal = AbortSignal.timeout(context.settings.gitTimeout * 1000);
  const refs = await cachedRefs(context, { cacheDir, names: [...new Set(names)], signal });
  const isThere = refs.some(({ name }) => name === headOf(worktree));
  const fresh = { ...worktree, gitDir: `${gitDir}.new` };
  await rm(fresh.gitDir, { recursive: true, force: true });
  await makeClone(context, { worktree: fresh, source: null }, { refs, start: isThere ? null : baseSha });
  if (old !== null) {
    await writeFile(join(fresh.gitDir, "HEAD"), head);
    await mkdir(join(fresh.gitDir, "logs"));
    for (const name of ["index", "logs/HEAD"])
      await copyFile(join(old, name), join(fresh.gitDir, name)).catch(() => undefined);
  }
  await rename(fresh.gitDir, gitDir);
};

/** Empty: there is no such file. */
export const textOf = (file: string): Promise<string> =>
  readFile(file, { encoding: "latin1", flag: nonBlocking.read }).catch(() => "");
