import { randomUUID } from "node:crypto";
import { access, mkdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { asRepoError } from "./failure.ts";
import { canonicalConfig, makeGitDirectory, restoreGitDirectory } from "./git-directory.ts";
import { heal, isDamage } from "./heal.ts";
import { pastStaleLocks, removeHalfMade } from "./leftovers.ts";
import { farEnd, networkAccess } from "./network.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import { dropNotes, pushNotes } from "./push-notes.ts";
import type { CachedRepo } from "./repos.ts";
import { cacheDirectory, cacheGitDir, gitDirVariables, runGit, type Room } from "./room.ts";
import { parseRepoUrl, repoKey } from "./url.ts";

export type FetchRequest = { url: string; jobId: string; signal: AbortSignal };

/**
 * Brings a repository's cached clone up to date, under its lock; makes the clone when there is none.
 * @throws RepoError `clone_failed`
 */
export const fetchRepo = async (
  room: Room,
  request: FetchRequest & { allowLocal: boolean },
): Promise<CachedRepo> => {
  const { jobId, signal, allowLocal } = request;
  try {
    // Checked again: the setting may have changed since the job was accepted.
    const url = parseRepoUrl(request.url, { allowLocal });
    const key = repoKey(url);
    const repo: CachedRepo = { url, key, gitDir: cacheGitDir(room, key), warnings: [] };
    await withRepositoryLock(room, { key, url, reason: "clone_failed", signal }, async (held) => {
      if (!room.lookedOver.has(key)) await removeHalfMade(cacheDirectory(room, key));
      room.lookedOver.add(key);
      await update(room, repo, { jobId, ...held });
    });
    return repo;
  } catch (error) {
    throw asRepoError(error, { reason: "clone_failed", what: `fetch ${request.url}`, signal });
  }
};

export type LockHeld = { jobId: string; signal: AbortSignal; lockFd: number };

const update = async (room: Room, repo: CachedRepo, held: LockHeld): Promise<void> => {
  if (!(await exists(repo.gitDir))) return cloneInto(room, repo, { ...held, target: repo.gitDir });
  await restoreCache(room, repo);
  // A push that is noted while we fetch may be unknown to what we fetched.
  const notes = await pushNotes(repo.gitDir);
  try {
    await pastStaleLocks(repo.gitDir, held.signal, () =>
      fetchAll(room, repo, { ...held, into: repo.gitDir }),
    );
    await dropNotes(notes);
  } catch (error) {
    if (!isDamage(error)) throw error;
    repo.warnings.push(await repair(room, repo, held));
  }
};

/** Mends a damaged cache from a fresh clone made beside it. Resolves to a sentence about it. To be called with the lock held. */
export const repair = async (room: Room, repo: CachedRepo, held: LockHeld): Promise<string> => {
  const fresh = join(cacheDirectory(room, repo.key), `clone-${randomUUID()}`);
  try {
    await cloneInto(room, repo, { ...held, target: fresh });
    await restoreCache(room, repo);
    await heal(room, { gitDir: repo.gitDir, fresh, ...held });
    return `The cached clone of ${repo.url} was damaged and has been mended from the remote.`;
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
};

/** Makes the cache's configuration ours again. */
export const restoreCache = (
  room: Room,
  { gitDir, url }: Pick<CachedRepo, "gitDir" | "url">,
): Promise<void> => restoreGitDirectory(gitDir, canonicalConfig(room.settings, { url, bare: true }));

/** Under a temporary name first, so that a clone that has its name is whole. */
const cloneInto = async (
  room: Room,
  repo: CachedRepo,
  { target, ...held }: LockHeld & { target: string },
): Promise<void> => {
  const temporary = join(cacheDirectory(room, repo.key), `clone-${randomUUID()}`);
  const config = canonicalConfig(room.settings, { url: repo.url, bare: true });
  try {
    await mkdir(temporary, { recursive: true });
    await makeGitDirectory(temporary, { config, head: "refs/heads/main" });
    await fetchAll(room, repo, { ...held, into: temporary });
    await rename(temporary, target);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
};

const fetchAll = async (
  room: Room,
  { url }: CachedRepo,
  { into, lockFd, jobId, signal }: LockHeld & { into: string },
): Promise<void> => {
  const network = await networkAccess(room, url, signal);
  // An agent that fetched with a depth has cut the history of the cache, which all share.
  const whole = (await exists(join(into, "shallow"))) ? ["--unshallow"] : [];
  await runGit(
    room,
    ["fetch", ...fetchOptions, ...whole, ...farEnd(url, "upload-pack"), "--", url, ...refspecs],
    {
      ...network,
      variables: { ...network.variables, ...gitDirVariables(into) },
      inheritFd: lockFd,
      jobId,
      signal,
    },
  );
};

const fetchOptions = [
  "--quiet",
  "--prune",
  "--no-tags",
  "--no-write-fetch-head",
  "--no-auto-maintenance",
  "--no-recurse-submodules",
  "--no-show-forced-updates",
];

const refspecs = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
