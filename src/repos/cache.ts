import { randomUUID } from "node:crypto";
import { cp, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { parseRepoUrl } from "../contract/repository-url.ts";
import { GitError } from "../lib/git.ts";
import { readAgentClone, readRefs } from "./clone.ts";
import { attempt } from "./failure.ts";
import {
  type GitContext,
  type LockedContext,
  cacheDirectory,
  cacheGitDir,
  runGit,
  runRemote,
  unlessRefused,
} from "./git-context.ts";
import {
  borrowObjects,
  canonicalConfig,
  removeLeftovers,
  restoreGitDirectory,
  withoutLeftovers,
} from "./git-directory.ts";
import { listOwned, readOwner } from "./owner-file.ts";
import { type CachedRepo, RepoError, type Worktree } from "./repos.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import { repoKey, shallowRepository } from "./url.ts";

/**
 * Brings a repository's cached clone up to date, under its lock; makes the clone when there is none.
 * @throws RepoError `clone_failed`
 */
export const fetchRepo = (
  context: GitContext,
  request: { url: string; allowLocal: boolean },
): Promise<CachedRepo> =>
  attempt(context, { reason: "clone_failed", what: `fetch ${request.url}` }, async () => {
    // The setting may have changed since the job was accepted.
    const url = parseRepoUrl(request.url, request);
    const key = repoKey(url);
    const repo: CachedRepo = { url, key, gitDir: cacheGitDir(context, key), warnings: [] };
    await withRepositoryLock(context, { key, url, reason: "clone_failed" }, async (locked) => {
      if (!context.checked.has(key)) await removeHalfMade(cacheDirectory(context, key));
      context.checked.add(key);
      await update(locked, repo);
    });
    return repo;
  });

const update = async (locked: LockedContext, repo: CachedRepo): Promise<void> => {
  const { url, gitDir } = repo;
  if ((await stat(gitDir).catch(() => null)) === null) return cloneInto(locked, repo);
  await restoreGitDirectory(gitDir, basicsOf(locked, url));
  try {
    await tidy(locked, gitDir);
    await fetchAll(locked, url, gitDir);
  } catch (error) {
    if (!(await isDamaged(locked, gitDir, error))) throw error;
    repo.warnings.push(await cloneAnew(locked, repo));
  }
};

const basicsOf = ({ settings }: GitContext, url: string | null) => ({
  config: canonicalConfig(settings, { url, bare: true }),
  head: "refs/heads/main",
});

/**
 * Fetches and jobs leave loose refs, and the next one reads all refs: packed, 5,000 of them cost a tenth of the time. Jobs and fetches
 * leave a pack each, and every look for an object goes through all of them: the small ones become one, which keeps what no
 * ref reaches too (worktrees borrow it).
 */
const tidy = async (locked: LockedContext, gitDir: string): Promise<void> => {
  const list = (name: string): Promise<string[]> => readdir(join(gitDir, name)).catch(() => []);
  const run = (...args: string[]) => withoutLeftovers(locked, gitDir, () => runGit(locked, gitDir, args));
  const refs = await readdir(join(gitDir, "refs"), { recursive: true }).catch(() => []);
  if (refs.length >= maxLooseRefs) await run("pack-refs", "--all");
  const packs = (await list("objects/pack")).filter((name) => name.endsWith(".pack"));
  if (packs.length > maxPacks) await run("repack", "--quiet", "-d", "--geometric=2");
};

const maxLooseRefs = 200;
const maxPacks = 50;

/** Clones the cache anew when git's failure comes from damage. Resolves to a warning about it; null: it is not damaged. */
export const replaceIfDamaged = async (
  context: GitContext,
  repo: CachedRepo,
  error: unknown,
): Promise<string | null> => {
  if (!mayBeDamage(error)) return null;
  const { key, url, gitDir } = repo;
  return withRepositoryLock(context, { key, url, reason: "worktree_failed" }, async (locked) =>
    (await isDamaged(locked, gitDir, error)) ? cloneAnew(locked, repo) : null,
  );
};

/**
 * Clones a damaged cache anew, with the refs of saved work and of job branches and with what worktrees borrow, as far as
 * that can be read. The old one stays beside it, under another name. Resolves to a warning about it.
 */
const cloneAnew = async (locked: LockedContext, repo: CachedRepo): Promise<string> => {
  const at = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  const damaged = join(cacheDirectory(locked, repo.key), `damaged-${at}.git`);
  const lost: string[] = [];
  await cloneInto(locked, repo, async (fresh) => {
    lost.push(...(await carryOver(locked, repo, fresh)));
    await rename(repo.gitDir, damaged);
  });
  for (const ref of lost)
    locked.onLost(ref, `The saved work ${ref} could not be read from a damaged clone: ${damaged}`);
  const without = lost.length === 0 ? "" : `, without saved work that could not be read: ${lost.join(", ")}`;
  return `The cached clone of ${repo.url} was damaged and has been cloned anew${without}. The old one is ${damaged}.`;
};

/** Fetches into the fresh clone what no remote has. Resolves to the refs that could not be read. */
const carryOver = async (locked: LockedContext, repo: CachedRepo, fresh: string): Promise<string[]> => {
  const refs = await readRefs(repo.gitDir);
  const own = [...refs].filter(([name]) => /^refs\/(heads|service)\//.test(name));
  const owned = await Promise.all((await listOwned(locked)).map((id) => readOwner(locked, id)));
  const worktrees = owned.flatMap((found) => (found?.worktree.repoKey === repo.key ? [found.worktree] : []));
  const read = (worktree: Worktree) => readAgentClone(locked, worktree).catch(() => null);
  const agents = (await Promise.all(worktrees.map(read))).filter((agent) => agent !== null);
  const borrowed = [...refs.values(), ...agents.flatMap((agent) => [...agent.tips, ...agent.refs.values()])];
  // Fetched from a git directory without refs of its own: those of the old clone may be garbage.
  const source = join(fresh, "service-source");
  await restoreGitDirectory(source, basicsOf(locked, null));
  await borrowObjects(source, [fresh, repo.gitDir, ...worktrees.map(({ ownDir }) => ownDir)]);
  const command = ["fetch", ...fetchOptions, "--stdin"] as const;
  /** Halves what fails until it is known what cannot be read. */
  const carry = async (specs: string[]): Promise<string[]> => {
    if (specs.length === 0) return [];
    const input = `${specs.join("\n")}\n`;
    const half = Math.ceil(specs.length / 2);
    const fetching = runRemote(locked, source, { where: fresh, command, input });
    return unlessRefused(
      fetching.then(() => []),
      async () =>
        half === specs.length
          ? specs
          : [...(await carry(specs.slice(0, half))), ...(await carry(specs.slice(half)))],
    );
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

/** Clones under a temporary name first, so that a clone with the final name is complete. */
const cloneInto = async (
  locked: LockedContext,
  { key, url, gitDir }: CachedRepo,
  complete: (fresh: string) => Promise<void> = async () => undefined,
): Promise<void> => {
  const temporary = join(cacheDirectory(locked, key), `clone-${randomUUID()}`);
  try {
    await restoreGitDirectory(temporary, basicsOf(locked, url));
    await fetchAll(locked, url, temporary);
    await complete(temporary);
    await rename(temporary, gitDir);
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
};

/** All refs or none: a fetch that fails leaves them as they were. */
const fetchAll = async (locked: LockedContext, url: string, into: string): Promise<void> => {
  const refs = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];
  const fetch = (...how: string[]) => {
    const command = ["fetch", ...how, "--prune", ...fetchOptions] as const;
    return withoutLeftovers(locked, into, () => runRemote(locked, url, { where: into, command, refs }));
  };
  const { stderr } = await unlessRefused(fetch("--atomic"), (error) => {
    // A branch has the name of a directory that another one left: git deletes and makes them one after the other only.
    if (error.said.includes("exists; cannot create")) return fetch();
    throw error;
  });
  if (stderr.includes("shallow roots are not allowed"))
    throw new RepoError("clone_failed", shallowRepository(url));
  if ((await readRefs(into, ["refs/remotes/origin"])).size > 0) return;
  if ((await runRemote(locked, url, { command: ["ls-remote", "--heads"] })).stdout !== "")
    throw new RepoError("clone_failed", `git fetched none of the branches that ${url} has; try again`);
};

export const fetchOptions = [
  "--quiet",
  "--no-tags",
  "--no-write-fetch-head",
  "--no-auto-maintenance",
  "--no-recurse-submodules",
  "--no-show-forced-updates",
];

/**
 * Whether a cached clone is damaged (by a crash of the machine, a deletion), of which git's failure may be the sign. Only
 * a check says so: git reports much the same when the connection broke or the disk is full.
 */
const isDamaged = async (locked: LockedContext, gitDir: string, error: unknown): Promise<boolean> => {
  if (!mayBeDamage(error)) return false;
  // As a crash of the machine leaves it; fsck does not look into files.
  const [, empty = ""] = /object file (\S+) is empty/.exec(error.said) ?? [];
  if (empty.startsWith(gitDir) && (await stat(empty).catch(() => null))?.size === 0) return true;
  // Everything that refs need is there, and what git's message names can be read.
  const named = error.said.match(/\b[0-9a-f]{40}\b/g) ?? [];
  const input = named.map((id) => `${id}\n`).join("");
  const onOutput = () => undefined;
  const check = async () => {
    await runGit(locked, gitDir, ["fsck", "--connectivity-only", "--no-dangling", "--no-reflogs"], {
      onOutput,
    });
    await runGit(locked, gitDir, ["cat-file", "--batch"], { onOutput, input });
    return false;
  };
  return unlessRefused(check(), () => true).catch(() => {
    locked.signal.throwIfAborted();
    return false;
  });
};

const mayBeDamage = (error: unknown): error is GitError => {
  if (!(error instanceof GitError)) return false;
  // Lines of the server are about its own repository, these two about what came over the network.
  const local = error.said.split("\n").filter((line) => !/^remote:|fetch-pack|unpack-objects/.test(line));
  return local.some((line) => signs.test(line));
};

const signs =
  /(object|pack|tree|blob|commit|index file|inflate|reference|ref)\b.*(corrupt|is empty|broken|missing|too small|truncated|cannot be|invalid)|bad (object|tree|signature)|unable to (read|resolve reference|parse)|not a git repository: '|did not send all necessary|invalid sha1 pointer|missing necessary objects|unexpected line in/i;
