import { randomUUID } from "node:crypto";
import { access, mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { GitError } from "../lib/git.ts";
import { cachedRefs } from "./clone.ts";
import { asRepoError } from "./failure.ts";
import {
  cacheDirectory,
  cacheGitDir,
  gitDirVariables,
  runGit,
  serverOptions,
  withNetwork,
  type GitContext,
} from "./git-context.ts";
import { canonicalConfig, makeGitDirectory, restoreGitDirectory } from "./git-directory.ts";
import { NotCaptured, RepoError, type CachedRepo, type Worktree } from "./repos.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import { parseRepoUrl, repoKey, shallowRepository } from "./url.ts";

/** `jobId`: the job that the fetch is for, if any. */
export type FetchRequest = { url: string; jobId?: string | undefined; signal: AbortSignal };

/**
 * Brings a repository's cached clone up to date, under its lock; makes the clone when there is none.
 * @throws RepoError `clone_failed`
 */
export const fetchRepo = async (
  context: GitContext,
  request: FetchRequest & { allowLocal: boolean },
): Promise<CachedRepo> => {
  const { jobId, signal, allowLocal } = request;
  try {
    // The setting may have changed since the job was accepted.
    const url = parseRepoUrl(request.url, { allowLocal });
    const key = repoKey(url);
    const repo: CachedRepo = { url, key, gitDir: cacheGitDir(context, key), warnings: [] };
    await withRepositoryLock(context, { key, url, reason: "clone_failed", signal }, async (lockHeld) => {
      if (!context.checked.has(key)) await removeHalfMade(cacheDirectory(context, key));
      context.checked.add(key);
      await update(context, repo, { jobId, ...lockHeld });
    });
    return repo;
  } catch (error) {
    throw asRepoError(error, { reason: "clone_failed", what: `fetch ${request.url}`, signal });
  }
};

type LockHeld = { jobId?: string | undefined; signal: AbortSignal; lockFd: number };

const update = async (context: GitContext, repo: CachedRepo, held: LockHeld): Promise<void> => {
  if (!(await exists(repo.gitDir))) return cloneInto(context, repo, held);
  await restoreCache(context, repo);
  try {
    await packRefs(context, repo.gitDir, held);
    await fetchAll(context, repo, { ...held, into: repo.gitDir });
  } catch (error) {
    if (!isDamage(error)) throw error;
    repo.warnings.push(await refetch(context, repo, held));
  }
};

/** Jobs leave a loose ref each, and a fetch reads all refs: packed, 5,000 of them cost a tenth of the time. */
const packRefs = async (
  context: GitContext,
  gitDir: string,
  { lockFd: inheritFd, signal }: LockHeld,
): Promise<void> => {
  const directories = ["refs/service/salvage", "refs/heads/service"].map((name) => join(gitDir, name));
  const names = await Promise.all(directories.map((directory) => readdir(directory).catch(() => [])));
  if (names.flat().length < maxLooseRefs) return;
  await runGit(context, ["pack-refs", "--all"], { variables: gitDirVariables(gitDir), inheritFd, signal });
};

const maxLooseRefs = 200;

/** Whether git failed because the cached clone is damaged (by a crash of the machine, a full disk, a deletion). */
export const isDamage = (error: unknown): boolean => {
  if (!(error instanceof GitError)) return false;
  // Lines of the server are about its own repository.
  const local = error.said.split("\n").filter((line) => !line.startsWith("remote:"));
  return local.some((line) => damage.test(line));
};

const damage =
  /(object|pack|tree|blob|commit|index file|inflate|reference|ref)\b.*(corrupt|is empty|broken|missing|too small|truncated|cannot be|invalid)|bad (object|tree|signature)|unable to (read|resolve reference|parse)|not a git repository: '|did not send all necessary|invalid sha1 pointer|missing necessary objects|unexpected line in/i;

/** Repairs a damaged cache. Resolves to a warning about it. */
export const repair = async (
  context: GitContext,
  { repo, jobId, signal }: { repo: CachedRepo; jobId: string; signal: AbortSignal },
): Promise<string> =>
  withRepositoryLock(
    context,
    { key: repo.key, url: repo.url, reason: "worktree_failed", signal },
    async (held) => refetch(context, repo, { jobId, ...held }),
  );

/**
 * Fetches everything again into the damaged cache. The cache stays in place, because worktrees borrow its objects and it
 * has the salvage refs. git finds the good copy of an object beside a broken one.
 */
const refetch = async (context: GitContext, repo: CachedRepo, held: LockHeld): Promise<string> => {
  const { gitDir } = repo;
  await restoreCache(context, repo);
  const derived = [
    "objects/info/commit-graph",
    "objects/info/commit-graphs",
    "objects/pack/multi-pack-index",
  ];
  for (const name of [...derived, "refs/remotes", "refs/tags"])
    await rm(join(gitDir, name), { recursive: true, force: true });
  await dropEmptyObjects(gitDir);
  const packed = await readFile(join(gitDir, "packed-refs"), "latin1").catch(() => "");
  const kept = packed
    .split("\n")
    .filter((line) => /^[0-9a-f]{40} refs\/(?!remotes\/|tags\/)[^\s\0]+$/.test(line));
  await writeFileAtomic(join(gitDir, "packed-refs"), kept.map((line) => `${line}\n`).join(""), 0o644);
  await fetchAll(context, repo, { ...held, into: gitDir, options: ["--refetch"] });
  return `The cached clone of ${repo.url} was damaged and has been mended from the remote.`;
};

/** Removes object files that a crash left empty: they keep git from writing the object. */
const dropEmptyObjects = async (gitDir: string): Promise<void> => {
  for (const entry of await readdir(join(gitDir, "objects"), { recursive: true, withFileTypes: true })) {
    const file = join(entry.parentPath, entry.name);
    if (entry.isFile() && /^[0-9a-f]{38}$/.test(entry.name) && (await stat(file)).size === 0)
      await rm(file, { force: true });
  }
};

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
  await withRepositoryLock(context, locked, async ({ lockFd, signal: until }) => {
    const config = canonicalConfig(context.settings, { url: url || null, bare: true });
    if (key === null && !(await exists(cacheDir)))
      await makeGitDirectory(cacheDir, { config, head: "refs/heads/main" });
    await restoreGitDirectory(cacheDir, { config, head: "refs/heads/main" });
    const server = serverOptions(worktree.gitDir, "upload-pack");
    const refspecs = wanted.map(([ref, commit]) => `+${commit}:${ref}`);
    const args = ["fetch", ...fetchOptions, ...server, "--", worktree.gitDir, ...refspecs];
    const variables = { GIT_ALLOW_PROTOCOL: "file", ...gitDirVariables(cacheDir) };
    await withoutStaleLocks(cacheDir, () =>
      runGit(context, args, { variables, inheritFd: lockFd, signal: until }),
    ).catch((error: unknown) => {
      const isCut = error instanceof GitError && error.said.includes("did not send all necessary objects");
      if (!isShallow || !isCut) throw error;
    });
    const found = await cachedRefs(context, { cacheDir, names: Object.keys(refs), signal: until });
    const lacking = wanted.filter(
      ([ref, commit]) => !found.some(({ name, sha }) => name === ref && sha === commit),
    );
    if (lacking.length === 0) return;
    if (isShallow) throw new NotCaptured(shallow);
    const names = lacking.map(([ref]) => ref).join(" and ");
    throw new RepoError("worktree_failed", `git did not write ${names} into the cached clone ${cacheDir}`);
  });
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

/** Removes git's own lock files when they are in the way: the caller has the cache's lock, so a crash has left them. */
const withoutStaleLocks = async <Value>(gitDir: string, action: () => Promise<Value>): Promise<Value> => {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await action();
    } catch (error) {
      const said = error instanceof GitError ? error.said : "";
      const file = /Unable to create '(\/[^']+\.lock)': File exists/.exec(said)?.[1];
      if (file === undefined || attempt === 10 || !file.startsWith(`${gitDir}/`)) throw error;
      await rm(file, { force: true });
    }
  }
};

/** Removes half-made clones and packs that a crash left. */
const removeHalfMade = async (cacheDirectory: string): Promise<void> => {
  for (const name of await readdir(cacheDirectory))
    if (name.startsWith("clone-")) await rm(join(cacheDirectory, name), { recursive: true, force: true });
  const packs = join(cacheDirectory, "repo.git", "objects", "pack");
  for (const name of await readdir(packs).catch(() => []))
    if (name.startsWith("tmp_")) await rm(join(packs, name), { force: true });
};

/** Undoes changes to the cache's configuration. */
const restoreCache = (
  context: GitContext,
  { gitDir, url }: Pick<CachedRepo, "gitDir" | "url">,
): Promise<void> =>
  restoreGitDirectory(gitDir, {
    config: canonicalConfig(context.settings, { url, bare: true }),
    head: "refs/heads/main",
  });

/** Clones under a temporary name first, so that a clone with the final name is complete. */
const cloneInto = async (context: GitContext, repo: CachedRepo, held: LockHeld): Promise<void> => {
  const temporary = join(cacheDirectory(context, repo.key), `clone-${randomUUID()}`);
  const config = canonicalConfig(context.settings, { url: repo.url, bare: true });
  try {
    await mkdir(temporary, { recursive: true });
    await makeGitDirectory(temporary, { config, head: "refs/heads/main" });
    await fetchAll(context, repo, { ...held, into: temporary });
    await rename(temporary, repo.gitDir);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
};

const fetchAll = async (
  context: GitContext,
  { url }: CachedRepo,
  { into, lockFd, jobId, signal, options = [] }: LockHeld & { into: string; options?: string[] },
): Promise<void> => {
  const server = serverOptions(url, "upload-pack");
  const args = ["fetch", "--prune", ...fetchOptions, ...options, ...server, "--", url, allBranches, allTags];
  const list = ["for-each-ref", "--count=1", "refs/remotes/origin"];
  await withNetwork(context, { url, signal }, async (access) => {
    const call = { ...access, inheritFd: lockFd, jobId, signal };
    const local = { ...call, variables: { ...access.variables, ...gitDirVariables(into) } };
    const { stderr } = await withoutStaleLocks(into, () => runGit(context, args, local));
    if (stderr.includes("shallow roots are not allowed"))
      throw new RepoError("clone_failed", shallowRepository(url));
    if ((await runGit(context, list, local)).stdout !== "") return;
    const { stdout } = await runGit(context, ["ls-remote", "--heads", ...server, "--", url], call);
    if (stdout !== "")
      throw new RepoError("clone_failed", `git fetched none of the branches that ${url} has; try again`);
  });
};

export const fetchOptions = [
  "--quiet",
  "--no-tags",
  "--no-write-fetch-head",
  "--no-auto-maintenance",
  "--no-recurse-submodules",
  "--no-show-forced-updates",
];

const allBranches = "+refs/heads/*:refs/remotes/origin/*";
const allTags = "+refs/tags/*:refs/tags/*";

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
