import { randomUUID } from "node:crypto";
import { access, cp, mkdir, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { GitError, type GitOutput } from "../lib/git.ts";
import { readAgentClone, readRefs } from "./clone.ts";
import { asRepoError } from "./failure.ts";
import {
  type GitContext,
  cacheDirectory,
  cacheGitDir,
  gitDirVariables,
  runGit,
  serverOptions,
  withNetwork,
} from "./git-context.ts";
import {
  borrowObjects,
  canonicalConfig,
  makeGitDirectory,
  removeLeftovers,
  restoreGitDirectory,
  withoutLeftovers,
} from "./git-directory.ts";
import { listOwned, readOwner } from "./owner-file.ts";
import { isRefName } from "./ref.ts";
import { type CachedRepo, RepoError } from "./repos.ts";
import { type LockHeld, withRepositoryLock } from "./repository-lock.ts";
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
    repo.warnings.push(await cloneAnew(context, repo, held));
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

/** Clones the cache anew when git's failure comes from damage. Resolves to a warning about it; null: it is not damaged. */
export const replaceIfDamaged = async (
  context: GitContext,
  { repo, error, jobId, signal }: { repo: CachedRepo; error: unknown; jobId: string; signal: AbortSignal },
): Promise<string | null> => {
  if (!mayBeDamage(error)) return null;
  const { key, url, gitDir } = repo;
  return withRepositoryLock(context, { key, url, reason: "worktree_failed", signal }, async (held) =>
    (await isDamaged(context, error, { ...held, gitDir }))
      ? cloneAnew(context, repo, { jobId, ...held })
      : null,
  );
};

/**
 * Clones a damaged cache anew, with the refs of saved work and of job branches and with what worktrees borrow, as far as
 * that can be read. The old one stays beside it, under another name. Resolves to a warning about it.
 */
const cloneAnew = async (context: GitContext, repo: CachedRepo, held: Held): Promise<string> => {
  const at = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const damaged = join(cacheDirectory(context, repo.key), `damaged-${at}.git`);
  const lost: string[] = [];
  await cloneInto(context, repo, held, async (fresh) => {
    lost.push(...(await carryOver(context, repo, { fresh, held })));
    await rename(repo.gitDir, damaged);
  });
  for (const ref of lost)
    context.onLost(ref, `The saved work ${ref} could not be read from a damaged clone: ${damaged}`);
  const without = lost.length === 0 ? "" : `, without saved work that could not be read: ${lost.join(", ")}`;
  return `The cached clone of ${repo.url} was damaged and has been cloned anew${without}. The old one is ${damaged}.`;
};

/** Fetches into the fresh clone what no remote has. Resolves to the refs that could not be read. */
const carryOver = async (
  context: GitContext,
  repo: CachedRepo,
  { fresh, held }: { fresh: string; held: Held },
): Promise<string[]> => {
  const refs = await readRefs(repo.gitDir);
  const own = [...refs].filter(([name]) => isRefName(name) && /^refs\/(heads|service)\//.test(name));
  const owned = await Promise.all((await listOwned(context)).map((id) => readOwner(context, id)));
  const worktrees = owned.flatMap((found) => (found?.worktree.repoKey === repo.key ? [found.worktree] : []));
  const agents = await Promise.all(worktrees.map(readAgentClone));
  const borrowed = [...refs.values(), ...agents.flatMap((agent) => [...agent.tips, ...agent.refs.values()])];
  // Fetched from a git directory without refs of its own: those of the old clone may be garbage.
  const source = join(fresh, "service-source");
  const config = canonicalConfig(context.settings, { url: null, bare: true });
  await makeGitDirectory(source, { config, head: "refs/heads/none" });
  const lenders = [...worktrees.map(({ ownDir }) => ownDir), ...agents.map(({ dir }) => dir)];
  await borrowObjects(source, [fresh, repo.gitDir, ...lenders]);
  const variables = { GIT_ALLOW_PROTOCOL: "file", ...gitDirVariables(fresh) };
  const args = ["fetch", ...fetchOptions, ...serverOptions(source, "upload-pack"), "--stdin", "--", source];
  const call = { variables, inheritFd: held.lockFd, signal: held.signal };
  /** Halves what fails until it is known what cannot be read. */
  const carry = async (specs: string[]): Promise<string[]> => {
    if (specs.length === 0) return [];
    try {
      await runGit(context, args, { ...call, input: `${specs.join("\n")}\n` });
      return [];
    } catch (error) {
      if (!(error instanceof GitError && error.ended === "exited")) throw error;
      const half = Math.ceil(specs.length / 2);
      return half === specs.length
        ? specs
        : [...(await carry(specs.slice(0, half))), ...(await carry(specs.slice(half)))];
    }
  };
  const lost = await carry(own.map(([name, id]) => `${id}:${name}`));
  await carry([...new Set(borrowed)]);
  await rm(source, { recursive: true, force: true });
  // Their times tell when a ref was saved.
  const logs = { recursive: true, preserveTimestamps: true };
  await cp(join(repo.gitDir, "logs"), join(fresh, "logs"), logs).catch(() => undefined);
  return lost.map((spec) => spec.slice(41));
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
const cloneInto = async (
  context: GitContext,
  repo: CachedRepo,
  held: Held,
  complete: (fresh: string) => Promise<void> = async () => undefined,
): Promise<void> => {
  const temporary = join(cacheDirectory(context, repo.key), `clone-${randomUUID()}`);
  const config = canonicalConfig(context.settings, { url: repo.url, bare: true });
  try {
    await mkdir(temporary, { recursive: true });
    await makeGitDirectory(temporary, { config, head: "refs/heads/main" });
    await fetchAll(context, repo, { ...held, into: temporary });
    await complete(temporary);
    await rename(temporary, repo.gitDir);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
};

/** All refs or none: a fetch that fails leaves them as they were. */
const fetchAll = async (
  context: GitContext,
  { url }: CachedRepo,
  { into, lockFd, lost, jobId, signal }: Held & { into: string },
): Promise<void> => {
  const server = serverOptions(url, "upload-pack");
  const args = ["--prune", ...fetchOptions, ...server, "--", url, allBranches, allTags];
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

type Check = { gitDir: string; lockFd: number; signal: AbortSignal };

/**
 * Whether a cached clone is damaged (by a crash of the machine, a deletion), of which git's failure may be the sign. Only
 * a check says so: git reports much the same when the connection broke or the disk is full.
 */
const isDamaged = async (context: GitContext, error: unknown, check: Check): Promise<boolean> => {
  if (!mayBeDamage(error)) return false;
  const { gitDir, lockFd: inheritFd, signal } = check;
  // As a crash of the machine leaves it; fsck does not look into files.
  const [, empty = ""] = /object file (\S+) is empty/.exec(error.said) ?? [];
  if (empty.startsWith(gitDir) && (await stat(empty).catch(() => null))?.size === 0) return true;
  // Everything that refs need is there, and what git's message names can be read.
  const named = error.said.match(/\b[0-9a-f]{40}\b/g) ?? [];
  const call = { variables: gitDirVariables(gitDir), inheritFd, signal, onOutput: () => undefined };
  try {
    await runGit(context, ["fsck", "--connectivity-only", "--no-dangling", "--no-reflogs"], call);
    await runGit(context, ["cat-file", "--batch"], { ...call, input: named.map((id) => `${id}\n`).join("") });
    return false;
  } catch (found) {
    if (found instanceof GitError && found.ended === "exited") return true;
    signal.throwIfAborted();
    return false;
  }
};

const mayBeDamage = (error: unknown): error is GitError => {
  if (!(error instanceof GitError)) return false;
  // Lines of the server are about its own repository, these two about what came over the network.
  const local = error.said.split("\n").filter((line) => !/^remote:|fetch-pack|unpack-objects/.test(line));
  return local.some((line) => signs.test(line));
};

const signs =
  /(object|pack|tree|blob|commit|index file|inflate|reference|ref)\b.*(corrupt|is empty|broken|missing|too small|truncated|cannot be|invalid)|bad (object|tree|signature)|unable to (read|resolve reference|parse)|not a git repository: '|did not send all necessary|invalid sha1 pointer|missing necessary objects|unexpected line in/i;
