import { lstat, mkdir, readdir, rename, rmdir } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { removeTree } from "../lib/remove-tree.ts";
import { fetchOptions, fetchRepo } from "./cache.ts";
import { leaveOutEscapingLinks, specialEntries, type Size, type SpecialEntries } from "./checkout-care.ts";
import { copyIndex, indexHiding, readRefs, remoteRefs, writeRefs } from "./clone.ts";
import { takesToken } from "../contract/repository-url.ts";
import { attempt } from "./failure.ts";
import { allowsLocal, type GitContext, runGit, runRemote, unlessRefused } from "./git-context.ts";
import { borrowObjects, makeDirectory, replace, restoreGitDirectory } from "./git-directory.ts";
import { cure, type Declared, declaredIn, sharesOwner, urlOf } from "./gitmodules.ts";
import { objectsAt } from "./git-objects.ts";
import { importCommits } from "./import.ts";
import { openWorktree } from "./open-worktree.ts";
import { readOwner, writeOwner } from "./owner-file.ts";
import { pathBytes, shownPath } from "./path-bytes.ts";
import { type CachedRepo, RepoError, type Worktree } from "./repos.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import { gitDirectoryAt, ownText, withBorrower } from "./submodule.ts";
import { noTokens } from "./tokens.ts";

/** Most submodules of a worktree, those of submodules included: each is a clone. */
const mostSubmodules = 100;

/** What a repository that has submodules is: the worktree, or a submodule of it. */
type Super = {
  /** Its files, and the agent's git directory of it. */
  path: string;
  gitDir: string;
  /** A git directory of the service that has the commit which is checked out. */
  from: string;
  commit: string;
  url: string;
  /** Before the paths of its submodules, in messages. */
  prefix: string;
};

/** What all submodules of a worktree have in common. */
type Adding = {
  worktree: Worktree;
  isRecursive: boolean;
  taken: Size;
  count: number;
  /** By URL, and whether the service's credentials were used. */
  fetched: Map<string, Promise<CachedRepo>>;
  warnings: string[];
};

/**
 * Checks out submodules of a worktree where nothing is yet, each at the commit that is named, from a cached clone of its own:
 * the agent's clone has them as git would. Resolves to the worktree with what is to be said. @throws RepoError that names one
 */
export const addSubmodules = (
  context: GitContext,
  worktree: Worktree,
  { isRecursive }: { isRecursive: boolean },
): Promise<Worktree> =>
  attempt(context, "worktree_failed", "check out the submodules", async () => {
    const { path, gitDir, ownDir: from, repoUrl: url } = worktree;
    const { agent } = await openWorktree(context, worktree);
    if (agent.head === null) return worktree;
    await importCommits(context, worktree, [agent.head]);
    await removeTree(stageOf(worktree));
    const found = await specialEntries(context, { gitDir: from, url }, agent.head);
    const begun = { taken: found, count: 0, fetched: new Map(), warnings: [] };
    const adding: Adding = { worktree, isRecursive, ...begun };
    await addAll(context, { path, gitDir, from, commit: agent.head, url, prefix: "" }, found, adding);
    return { ...adding.worktree, warnings: [...worktree.warnings, ...adding.warnings] };
  });

/** Whether a commit with these submodules has another commit of one that is checked out: git would leave that as it is. */
export const movesSubmodule = async ({ path: root }: Worktree, submodules: SpecialEntries["submodules"]) => {
  for (const [path, commit] of submodules) {
    const gitDir = await gitDirectoryAt(join(root, pathBytes(path).toString()));
    if (gitDir !== null && (await ownText(join(gitDir, "HEAD"))) !== `${commit}\n`) return true;
  }
  return false;
};

const addAll = async (context: GitContext, owner: Super, { submodules }: SpecialEntries, adding: Adding) => {
  if (submodules.size === 0) return;
  const declared = await readDeclared(context, owner);
  const all: Wanted[] = [];
  for (const [path, commit] of submodules) {
    const shown = shownPath(`${owner.prefix}${path}`);
    const entry = declared.find((each) => each.path === path);
    if (entry === undefined)
      adding.warnings.push(`The submodule ${shown} is not checked out: .gitmodules does not name it.`);
    else if (entry.update === "none")
      adding.warnings.push(`The submodule ${shown} is not checked out: .gitmodules says update = none.`);
    else {
      const url = permitted(context, entry, { owner, declared });
      const isFree = await isFreePlace(owner.path, pathBytes(entry.path).toString(), shown);
      if (isFree || adding.isRecursive) all.push({ entry, url, commit, shown, isFree });
    }
  }
  adding.count += all.length;
  if (adding.count > mostSubmodules)
    throw refusal(`${adding.worktree.repoUrl} has more than ${mostSubmodules} submodules`);
  await fetchSideBySide(context, all, owner, adding);
  for (const wanted of all) await addOne(context, wanted, owner, adding);
};

/** Fetches what is lacking, some at once. Whoever needs one that failed gets its failure. */
const fetchSideBySide = async (context: GitContext, all: readonly Wanted[], owner: Super, adding: Adding) => {
  const next = all.values();
  const fetchNext = async (): Promise<void> => {
    for (const wanted of next) await fetchOnce(context, wanted, { owner, adding }).catch(() => undefined);
  };
  await Promise.all(Array.from({ length: sideBySide }, fetchNext));
};

const sideBySide = 4;

/** Longest `.gitmodules`, bytes. */
const longestFile = 256 * 1024;

const readDeclared = async (context: GitContext, { from, commit, url }: Super): Promise<Declared[]> => {
  const name = `${commit}:.gitmodules`;
  const [found] = await objectsAt(context, from, [name]);
  if (found?.type !== "blob") return [];
  if (found.size > longestFile) throw refusal(`The .gitmodules of ${url} has more than ${longestFile} bytes`);
  const read = ["cat-file", "blob", name];
  const { stdout: text } = await runGit(context, from, read, { encoding: "latin1" });
  const list = ["config", "--file", "-", "--no-includes", "--null", "--list"];
  const listing = runGit(context, from, list, { input: pathBytes(text), encoding: "latin1" });
  const { stdout } = await unlessRefused(listing, ({ said }) => {
    throw refusal(`The .gitmodules of ${url} cannot be read: ${said}`);
  });
  return declaredIn(stdout);
};

const permitted = (
  { settings }: GitContext,
  entry: Declared,
  { owner, declared }: { owner: Super; declared: Declared[] },
): string => {
  const names = declared.map(({ name }) => name);
  const { gitHost, gitHostOwners: owners } = settings;
  const around = { superproject: owner.url, names, gitHost, owners, allowLocal: allowsLocal(settings) };
  try {
    return urlOf(entry, around);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw refusal(`The submodule "${shownPath(entry.name)}" of ${owner.url} is refused: it ${why}`);
  }
};

const refusal = (message: string): RepoError =>
  new RepoError(
    "worktree_failed",
    `${message}\nWhat to do: Correct .gitmodules of the base, or run the task without submodules.`,
  );

/** `isFree`: nothing is at its place yet. */
type Wanted = { entry: Declared; url: string; commit: string; shown: string; isFree: boolean };

const addOne = async (context: GitContext, wanted: Wanted, owner: Super, adding: Adding): Promise<void> => {
  const { entry, url, commit, shown, isFree } = wanted;
  const path = pathBytes(entry.path).toString();
  const gitDir = join(owner.gitDir, "modules", pathBytes(entry.name).toString());
  const repo = await fetchOnce(context, wanted, { owner, adding });
  const own = contextFor(context, url, owner.url);
  if (!(await hasCommit(context, repo, commit)) && !(await bringCommit(own, repo, commit))) {
    const lacks = `${url} does not have its commit ${commit}`;
    adding.warnings.push(`The submodule ${shown} is not checked out: ${lacks}.`);
    return;
  }
  const found = await specialEntries(context, { gitDir: repo.gitDir, url }, commit, adding.taken);
  adding.taken = found;
  const at = join(owner.path, path);
  if (isFree) {
    await noteLender(context, repo, adding);
    await makeDirectory(owner.gitDir, relative(owner.gitDir, dirname(gitDir)));
    await removeTree(gitDir);
    const place = { at, gitDir, stage: stageOf(adding.worktree) };
    const leftOut = await checkOut(context, { repo, commit, links: found.links, ...place });
    if (leftOut.length > 0)
      adding.warnings.push(
        `Links that point out of the submodule ${shown} were left out: ${leftOut.length}.`,
      );
  }
  if (!adding.isRecursive) {
    if (found.submodules.size > 0)
      adding.warnings.push(
        `Submodules of the submodule ${shown} are not checked out. svc run --recurse-submodules checks them out.`,
      );
    return;
  }
  const inner = { path: at, gitDir, from: repo.gitDir, commit, url, prefix: `${shown}/` };
  await addAll(context, inner, found, adding);
};

/** Without the token where the submodule may not be read with it. */
const contextFor = (context: GitContext, url: string, superproject: string): GitContext => {
  const { gitHost, gitHostOwners: owners } = context.settings;
  const isOwn = !takesToken(url, gitHost) || sharesOwner(url, { superproject, gitHost, owners });
  return isOwn ? context : { ...context, tokens: noTokens };
};

/** @throws RepoError with the submodule's name */
const fetchOnce = (
  context: GitContext,
  wanted: Wanted,
  { owner, adding }: { owner: Super; adding: Adding },
): Promise<CachedRepo> => {
  const own = contextFor(context, wanted.url, owner.url);
  const key = `${wanted.url} ${own.tokens === noTokens}`;
  const fetching = adding.fetched.get(key) ?? fetchNamed(own, wanted, { owner, adding });
  adding.fetched.set(key, fetching);
  return fetching;
};

const fetchNamed = async (
  context: GitContext,
  { url, entry }: Wanted,
  { owner, adding }: { owner: Super; adding: Adding },
): Promise<CachedRepo> => {
  const allowLocal = allowsLocal(context.settings);
  const repo = await fetchRepo(context, { url, allowLocal }).catch((cause: unknown) => {
    if (!(cause instanceof RepoError)) throw cause;
    const { reason, message, retryable, again } = cause;
    const why =
      context.tokens === noTokens
        ? `\nIt is asked for without the token, because it has another owner than its superproject: ${cure}.`
        : "";
    const what = `The submodule "${shownPath(entry.name)}" of ${owner.url} is not to be had. ${message}${why}`;
    throw new RepoError(reason, what, { cause, retryable, again });
  });
  adding.warnings.push(...repo.warnings);
  return repo;
};

/** Fetches a commit that is on no branch or tag, as git does for a submodule. Whether the remote has it. */
const bringCommit = async (context: GitContext, repo: CachedRepo, commit: string): Promise<boolean> => {
  const { url, key, gitDir: where } = repo;
  const refs = [`${commit}:refs/service/submodules/${commit}`];
  const command = ["fetch", ...fetchOptions] as const;
  await withRepositoryLock(context, { key, url, reason: "clone_failed" }, (locked) =>
    unlessRefused(runRemote(locked, url, { where, command, refs }), () => null),
  );
  return hasCommit(context, repo, commit);
};

const hasCommit = async (context: GitContext, { gitDir }: CachedRepo, commit: string): Promise<boolean> =>
  (await objectsAt(context, gitDir, [commit]))[0]?.type === "commit";

/** Before the agent can read there. */
const noteLender = async (context: GitContext, { key }: CachedRepo, adding: Adding): Promise<void> => {
  const { submodules = [], worktreeId } = adding.worktree;
  if (submodules.includes(key)) return;
  adding.worktree = { ...adding.worktree, submodules: [...submodules, key] };
  const owned = await readOwner(context, worktreeId);
  if (owned === null) throw new Error(`the worktree ${worktreeId} is gone`);
  const worktree = { ...owned.worktree, submodules: adding.worktree.submodules };
  await writeOwner(context, { ...owned, worktree });
};

/** Where a submodule is checked out before it gets its place as a whole. */
const stageOf = ({ gitDir }: Worktree): string => join(gitDir, "service-submodule");

/** Whether nothing but an empty directory is at a submodule's place. @throws RepoError: a link or file is on the way */
const isFreePlace = async (root: string, path: string, shown: string): Promise<boolean> => {
  let at = root;
  for (const part of path.split("/")) {
    at = join(at, part);
    const found = await lstat(at).catch(() => null);
    if (found === null) await mkdir(at);
    else if (!found.isDirectory())
      throw refusal(`The submodule ${shown} is refused: there is a link or a file in its place`);
  }
  return (await readdir(at)).length === 0;
};

type Checkout = Record<"commit" | "at" | "gitDir" | "stage", string> & { repo: CachedRepo; links: string[] };

/** The directory gets its name when it is complete. Resolves to the links that were left out. */
const checkOut = async (context: GitContext, { repo, commit, links, at, gitDir, stage }: Checkout) => {
  try {
    return await withBorrower(context, [repo.gitDir], async (ownDir) => {
      await mkdir(stage);
      await runGit(context, { path: stage, ownDir }, ["read-tree", "--reset", "-u", commit]);
      const leftOut = await leaveOutEscapingLinks({ path: stage }, links);
      await writeGitDirectory(context, { repo, commit, gitDir });
      await copyIndex(await indexHiding(context, { path: stage, ownDir }, leftOut), join(gitDir, "index"));
      await replace(join(stage, ".git"), `gitdir: ${relative(at, gitDir)}\n`);
      await rmdir(at);
      await rename(stage, at);
      return leftOut;
    });
  } finally {
    await removeTree(stage);
  }
};

/** The agent's: the remote's refs as cached, and the commit checked out on no branch, as git does it. */
const writeGitDirectory = async (
  context: GitContext,
  { repo, commit, gitDir }: { repo: CachedRepo; commit: string; gitDir: string },
): Promise<void> => {
  const { gitAuthorName: name, gitAuthorEmail: email } = context.settings;
  await restoreGitDirectory(context, gitDir, { url: repo.url, bare: false });
  await borrowObjects(gitDir, [repo.gitDir]);
  await writeRefs(gitDir, await readRefs(repo.gitDir, remoteRefs), { durable: false });
  await replace(join(gitDir, "HEAD"), `${commit}\n`);
  await makeDirectory(gitDir, "logs");
  const who = `${name} <${email}> ${Math.floor(Date.now() / 1000)} +0000`;
  const line = `${"0".repeat(40)} ${commit} ${who}\tclone: from ${repo.url}\n`;
  await replace(join(gitDir, "logs", "HEAD"), line);
};
