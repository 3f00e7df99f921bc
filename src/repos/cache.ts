import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { cp, readdir, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { parseRepoUrl } from "../contract/repository-url.ts";
import { GitError } from "../lib/git.ts";
import { bringReadable, readRefs, remoteRefs, writeRefs } from "./clone.ts";
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
import { removeLeftovers, restoreGitDirectory, textOf } from "./git-directory.ts";
import { readOwners } from "./owner-file.ts";
import { remoteBranches } from "./ref.ts";
import { type CachedRepo, RepoError, savedDirOf, type Worktree } from "./repos.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import { careForSaved, packAnew, remoteIds, tidy } from "./saved.ts";
import { otherFormat, repoKey, shallowRepository } from "./url.ts";

/** Brings the cached clone of a repository up to date, or makes it, under its lock. @throws RepoError `clone_failed` */
export const fetchRepo = (context: GitContext, request: { url: string; allowLocal: boolean }) =>
  attempt(context, "clone_failed", `fetch ${request.url}`, async () => {
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
  let isBad = false;
  if (!existsSync(gitDir)) await makeClone(locked, repo);
  else {
    await restoreGitDirectory(locked, gitDir, { url, bare: true });
    try {
      await fetchAll(locked, url, gitDir);
      await tidy(locked, gitDir);
    } catch (error) {
      isBad = await isDamaged(locked, gitDir, error);
      if (!isBad) throw error;
    }
  }
  repo.warnings.push(...(await (isBad ? cloneAnew : careOrMend)(locked, repo)));
};

/** Makes anew what is damaged when git's failure comes from damage. Resolves to warnings about it; none: it is not damaged. */
export const replaceIfDamaged = async (context: GitContext, repo: CachedRepo, error: unknown) => {
  if (!mayBeDamage(error)) return [];
  const { key, url, gitDir } = repo;
  return withRepositoryLock(context, { key, url, reason: "worktree_failed" }, async (locked) =>
    (await isDamaged(locked, gitDir, error)) ? cloneAnew(locked, repo) : careOrMend(locked, repo, []),
  );
};

const asideOf = (locked: LockedContext, { key }: CachedRepo, kind = ""): string => {
  const at = new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "");
  return join(cacheDirectory(locked, key), `damaged-${at}${kind}.git`);
};

/** Clones a damaged cache anew. The old one stays beside it, under another name. Resolves to warnings about it. */
const cloneAnew = async (locked: LockedContext, repo: CachedRepo): Promise<string[]> => {
  const aside = asideOf(locked, repo);
  await makeClone(locked, repo, aside);
  const cloned = `The cached clone of ${repo.url} was damaged and has been cloned anew. The old one is ${aside}.`;
  return [cloned, ...(await careOrMend(locked, repo, [aside]))];
};

/**
 * Clones. `aside`: the new name of the damaged clone that is there. What worktrees borrow from that is copied as far as it can
 * be read: what the remote had when it was asked last, and their bases. A clone with the final name is complete.
 */
const makeClone = async (locked: LockedContext, repo: CachedRepo, aside?: string): Promise<void> => {
  const { key, url, gitDir } = repo;
  const fresh = join(cacheDirectory(locked, key), `clone-${randomUUID()}`);
  try {
    await cloneAll(locked, url, fresh);
    if (aside !== undefined) {
      const refs = await readRefs(gitDir, [...remoteRefs, "refs/service/submodules"]);
      const bases = (await worktreesOf(locked, key)).flatMap(({ baseSha }) => baseSha ?? []);
      const bringing = { where: fresh, lenders: [gitDir], without: await remoteIds(fresh), into: fresh };
      await bringReadable(locked, [...new Set([...refs.values(), ...bases])], bringing);
      await rename(gitDir, aside);
    }
    await rename(fresh, gitDir);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
};

/** This instance's worktrees of a repository. */
const worktreesOf = async (locked: LockedContext, key: string): Promise<Worktree[]> =>
  (await readOwners(locked)).map(({ worktree }) => worktree).filter(({ repoKey }) => repoKey === key);

/**
 * Keeps saved work whole; `lenders`: the clone that it borrowed from was replaced. Of damaged work a copy stays, and what can
 * be read there, in `lenders` or in worktrees goes on. Resolves to a warning about that.
 */
const careOrMend = async (locked: LockedContext, repo: CachedRepo, lenders?: string[]): Promise<string[]> => {
  const { url, gitDir: cacheDir, key } = repo;
  const saved = savedDirOf(cacheDir);
  try {
    await careForSaved(locked, repo, { isForced: lenders !== undefined });
    return [];
  } catch (error) {
    if (!(await isDamaged(locked, saved, error))) throw error;
  }
  const aside = asideOf(locked, repo, "-saved");
  await cp(saved, aside, { recursive: true, preserveTimestamps: true });
  const own = (await worktreesOf(locked, key)).map(({ ownDir }) => ownDir);
  const lasting = await remoteIds(cacheDir, { lasting: true });
  const lost = await packAnew(locked, saved, { lasting, lenders: [...(lenders ?? []), ...own] });
  for (const ref of lost)
    locked.onLost(ref, `The saved work ${ref} could not be read from a damaged clone: ${aside}`);
  const lacks = lost.length === 0 ? "" : `, without saved work that could not be read: ${lost.join(", ")}`;
  return [`The saved work of ${url} was damaged and has been packed anew${lacks}. The old one is ${aside}.`];
};

/** Removes what a crash left: half-made clones, packs that are not whole, lock files of git. */
const removeHalfMade = async (cacheDirectory: string): Promise<void> => {
  for (const name of await readdir(cacheDirectory))
    if (name.startsWith("clone-")) await rm(join(cacheDirectory, name), { recursive: true, force: true });
  for (const name of ["repo.git", "saved.git"]) await removeLeftovers(join(cacheDirectory, name));
};

/** All refs or none: a fetch that fails leaves them as they were. */
const fetchAll = async (locked: LockedContext, url: string, into: string): Promise<void> => {
  const refs = ["+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*"];
  const fetch = (...how: string[]) => {
    const command = ["fetch", ...how, "--prune", ...fetchOptions] as const;
    // Each job leaves a branch, and git reads objects that are a file each fifteen times as slowly as those of a pack.
    const call = { where: into, command, refs, config: [["fetch.unpackLimit", "1"]] } as const;
    return runRemote(locked, url, call);
  };
  const { stderr } = await unlessRefused(fetch("--atomic"), (error) => {
    // A branch has the name of a directory that another one left: git deletes and makes them one after the other only.
    if (error.said.includes("exists; cannot create")) return fetch();
    throw error;
  });
  if (stderr.includes("shallow roots are not allowed"))
    throw new RepoError("clone_failed", shallowRepository(url));
  await requireBranches(locked, url, into);
};

/** As the first fetch, whose refs git would write as a file each: those of a clone are one, and get their names there. */
const cloneAll = async (locked: LockedContext, url: string, into: string): Promise<void> => {
  const options = ["--bare", "--quiet", "--no-local", "--reject-shallow", "--template="];
  const cloning = runRemote(locked, url, { command: ["clone", ...options], refs: [into] });
  await unlessRefused(cloning, (error) => {
    if (error.said.includes("source repository is shallow"))
      throw new RepoError("clone_failed", shallowRepository(url));
    throw error;
  });
  if (/objectformat = sha256/i.test(await textOf(join(into, "config"))))
    throw new RepoError("clone_failed", otherFormat(url));
  const refs = await readRefs(into, ["refs/heads", "refs/tags"]);
  await rm(join(into, "HEAD"));
  await restoreGitDirectory(locked, into, { url, bare: true });
  const named = [...refs].map(([name, id]) => [name.replace("refs/heads/", remoteBranches), id] as const);
  await writeRefs(into, new Map(named), { durable: true });
  await requireBranches(locked, url, into);
};

const requireBranches = async (locked: LockedContext, url: string, into: string): Promise<void> => {
  if ([...(await readRefs(into, remoteRefs)).keys()].some((name) => name.startsWith(remoteBranches))) return;
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

/** Whether a clone is damaged. Only a check says so: git reports much the same of a broken connection and a full disk. */
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
  /(object|pack|tree|blob|commit|index file|inflate|reference|ref)\b.*(corrupt|is empty|broken|missing|too small|truncated|cannot be|invalid)|bad (object|tree|signature)|unable to (read|resolve reference|parse)|not a git repository: '|did not send all necessary|invalid sha1 pointer|could not read [0-9a-f]{40}|failed to traverse|missing necessary objects|unexpected line in/i;
