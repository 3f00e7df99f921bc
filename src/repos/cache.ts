import { randomUUID } from "node:crypto";
import { access, mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { GitError, type GitOutput } from "../lib/git.ts";
import { isDamaged, mayBeDamage } from "./damage.ts";
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
import { removeLeftovers, withoutLeftovers } from "./leftovers.ts";
import { RepoError, type CachedRepo } from "./repos.ts";
import { withRepositoryLock, type LockHeld } from "./repository-lock.ts";
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

type Held = LockHeld & { jobId?: string | undefined };

const update = async (context: GitContext, repo: CachedRepo, held: Held): Promise<void> => {
  if (!(await exists(repo.gitDir))) return cloneInto(context, repo, held);
  await restoreCache(context, repo);
  try {
    await tidy(context, repo.gitDir, held);
    await fetchAll(context, repo, { ...held, into: repo.gitDir });
  } catch (error) {
    if (!(await isDamaged(context, error, { ...held, gitDir: repo.gitDir }))) throw error;
    repo.warnings.push(await refetch(context, repo, held));
  }
};

/**
 * Jobs leave a loose ref each, and a fetch reads all refs: packed, 5,000 of them cost a tenth of the time. Jobs and fetches
 * leave a pack each, and every look for an object goes through all of them: the small ones become one, which keeps what no
 * ref reaches too (worktrees borrow it).
 */
const tidy = async (
  context: GitContext,
  gitDir: string,
  { lockFd: inheritFd, lost, signal }: Held,
): Promise<void> => {
  const list = (name: string): Promise<string[]> => readdir(join(gitDir, name)).catch(() => []);
  const call = { variables: gitDirVariables(gitDir), inheritFd, signal };
  const run = (...args: string[]): Promise<GitOutput> =>
    withoutLeftovers(gitDir, lost, () => runGit(context, args, call));
  const refs = [...(await list("refs/service/salvage")), ...(await list("refs/heads/service"))];
  if (refs.length >= maxLooseRefs) await run("pack-refs", "--all");
  const packs = (await list("objects/pack")).filter((name) => name.endsWith(".pack"));
  if (packs.length > maxPacks) await run("repack", "--quiet", "-d", "--geometric=2");
};

const maxLooseRefs = 200;
const maxPacks = 50;

/** Repairs the cache when git's failure comes from damage. Resolves to a warning about it; null: it is not damaged. */
export const repair = async (
  context: GitContext,
  { repo, error, jobId, signal }: { repo: CachedRepo; error: unknown; jobId: string; signal: AbortSignal },
): Promise<string | null> => {
  if (!mayBeDamage(error)) return null;
  const { key, url, gitDir } = repo;
  return withRepositoryLock(context, { key, url, reason: "worktree_failed", signal }, async (held) =>
    (await isDamaged(context, error, { ...held, gitDir }))
      ? refetch(context, repo, { jobId, ...held })
      : null,
  );
};

/**
 * Fetches everything again into the damaged cache. The cache stays in place, because worktrees borrow its objects and it
 * has the salvage refs. git finds the good copy of an object beside a broken one. Refs come back when the fetch fails.
 */
const refetch = async (context: GitContext, repo: CachedRepo, held: Held): Promise<string> => {
  const { gitDir } = repo;
  await restoreCache(context, repo);
  const derived = [
    "objects/info/commit-graph",
    "objects/info/commit-graphs",
    "objects/pack/multi-pack-index",
  ];
  for (const name of derived) await rm(join(gitDir, name), { recursive: true, force: true });
  const before = join(cacheDirectory(context, repo.key), "refs-before");
  await rm(before, { recursive: true, force: true });
  await mkdir(join(before, "refs"), { recursive: true });
  const packed = await readFile(join(gitDir, "packed-refs"), "latin1").catch(() => "");
  const fetched = ["refs/remotes", "refs/tags"];
  for (const name of fetched) await rename(join(gitDir, name), join(before, name)).catch(() => undefined);
  const kept = packed
    .split("\n")
    .filter((line) => /^[0-9a-f]{40} refs\/(?!remotes\/|tags\/)[^\s\0]+$/.test(line));
  await writeFileAtomic(join(gitDir, "packed-refs"), kept.map((line) => `${line}\n`).join(""), 0o644);
  try {
    await fetchAll(context, repo, { ...held, into: gitDir, options: ["--refetch"] });
  } catch (error) {
    for (const name of fetched) {
      await rm(join(gitDir, name), { recursive: true, force: true });
      await rename(join(before, name), join(gitDir, name)).catch(() => undefined);
    }
    await writeFileAtomic(join(gitDir, "packed-refs"), packed, 0o644);
    throw error;
  }
  await rm(before, { recursive: true, force: true });
  return `The cached clone of ${repo.url} was damaged and has been mended from the remote.`;
};

/** Removes what a crash left: half-made clones, packs that are not whole, lock files of git. */
const removeHalfMade = async (cacheDirectory: string): Promise<void> => {
  for (const name of await readdir(cacheDirectory))
    if (name.startsWith("clone-")) await rm(join(cacheDirectory, name), { recursive: true, force: true });
  await removeLeftovers(join(cacheDirectory, "repo.git"));
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
const cloneInto = async (context: GitContext, repo: CachedRepo, held: Held): Promise<void> => {
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

/** All refs or none: a fetch that fails leaves them as they were. */
const fetchAll = async (
  context: GitContext,
  { url }: CachedRepo,
  { into, lockFd, lost, jobId, signal, options = [] }: Held & { into: string; options?: string[] },
): Promise<void> => {
  const server = serverOptions(url, "upload-pack");
  const args = ["--prune", ...fetchOptions, ...options, ...server, "--", url, allBranches, allTags];
  const list = ["for-each-ref", "--count=1", "refs/remotes/origin"];
  await withNetwork(context, { url, signal }, async (access) => {
    const call = { ...access, inheritFd: lockFd, jobId, signal };
    const variables = gitDirVariables(into);
    const local = { ...call, variables: { ...access.variables, ...variables } };
    const fetch = (...how: string[]): Promise<GitOutput> =>
      withoutLeftovers(into, lost, () => runGit(context, ["fetch", ...how, ...args], local));
    const { stderr } = await fetch("--atomic").catch((error: unknown) => {
      // A branch has the name of a directory that another one left: git deletes and makes them one after the other only.
      if (error instanceof GitError && error.said.includes("exists; cannot create")) return fetch();
      throw error;
    });
    if (stderr.includes("shallow roots are not allowed"))
      throw new RepoError("clone_failed", shallowRepository(url));
    if ((await runGit(context, list, { variables, signal })).stdout !== "") return;
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
