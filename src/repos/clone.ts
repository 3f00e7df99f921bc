import { hash } from "node:crypto";
import { constants, existsSync } from "node:fs";
import { lstat, open, readdir, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { nonBlocking } from "../lib/non-blocking.ts";
import { find } from "./find.ts";
import { listFiles } from "./git-index.ts";
import { pathBytes, pathList, pathText, shownPath } from "./path-bytes.ts";
import { runGit, unlessRefused, type GitContext } from "./git-context.ts";
import {
  borrowObjects,
  makeDirectory,
  removePlanted,
  removeLocks,
  replace,
  restoreGitDirectory,
  smallTextOf,
  textOf,
} from "./git-directory.ts";
import { ownDirectory } from "./owner-file.ts";
import { isGitName, remoteBranches } from "./ref.ts";
import { exchanged, NotCaptured, RepoError, runtimeFiles, type Worktree } from "./repos.ts";
import { ownText } from "./submodule.ts";
import { indexOf, scratchOf, type Tree } from "./wall.ts";

/*
 * A worktree has two git directories. `gitDir` is the agent's clone: the service writes it, reads its text files, and never
 * runs git in it. `ownDir` lies beside the owner file and borrows the objects of the cache: all git of the service runs
 * there, and what touches the files runs behind the wall (`wall.ts`), which alone reads the agent's objects.
 */

/** A symbolic link does not count: it may lead anywhere. */
const isDirectory = async (path: string): Promise<boolean> =>
  (await lstat(path).catch(() => null))?.isDirectory() === true;

export const hasDirectory = ({ path }: Pick<Worktree, "path">): Promise<boolean> => isDirectory(path);

/** @throws RepoError `worktree_failed` when its directory is not there */
export const requireDirectory = async ({ path }: Worktree): Promise<void> => {
  if (!(await isDirectory(path)))
    throw new RepoError("worktree_failed", `The directory ${path} was deleted, and its clone with it`);
};

/** Prefixes of the refs that a worktree's clone copies from the cached clone. */
export const remoteRefs = ["refs/remotes/origin", "refs/tags"];

export const branchRef = ({ branch }: Pick<Worktree, "branch">): string => `refs/heads/${branch}`;

/** The empty tree, which git knows without storing it. */
export const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/** What the agent's clone names. Its ids are not checked: the objects may be missing. */
export type AgentClone = {
  /** Nothing is there when there is no clone, or it is not read. */
  dir: string;
  /** The ref that is checked out; null: a commit on no branch. */
  on: string | null;
  head: string | null;
  refs: Refs;
  /** What its `info/exclude` hides besides what the service wrote there. */
  exclude: string[];
  /** Commits that branches, the stash or a HEAD name, or that were once checked out on no branch. */
  tips: string[];
};

/**
 * Reads it as text, so that nothing an agent wrote can steer git. `filesOnly`: as if there were none, and its files are changes
 * since the base. @throws NotCaptured when it leads out of the worktree
 */
export const readAgentClone = async (context: GitContext, worktree: Worktree, { filesOnly = false } = {}) => {
  const { gitDir: dir, baseSha } = worktree;
  const branch = branchRef(worktree);
  if (filesOnly || (await lstat(dir).catch(() => null)) === null) {
    const refs = new Map(baseSha === null ? [] : [[branch, baseSha]]);
    const dir = join(worktree.ownDir, "none");
    return { dir, on: branch, head: baseSha, refs, exclude: [], tips: [...refs.values()] };
  }
  await requireOwn(context, worktree);
  const refs = await readRefs(dir, ["refs"], smallTextOf);
  const text = await smallTextOf(join(dir, "HEAD"));
  const detached = idIn(text);
  const on = detached === null ? (/^ref: (refs\/\S+)\n?$/.exec(text)?.[1] ?? branch) : null;
  const head = detached ?? refs.get(on ?? "") ?? null;
  const own = [...refs].flatMap(([name, id]) => (ofOthers.test(name) ? [] : [id]));
  const tips = new Set([...(head === null ? [] : [head]), ...own, ...(await unnamedCommits(dir))]);
  return { dir, on, head, refs, exclude: await excludedIn(context, worktree), tips: [...tips] };
};

/** Refs that an agent fetched: of remotes, and of the changes that hosts keep beside branches. Its work is on others. */
const ofOthers = /^refs\/(remotes|pull|pull-requests|merge-requests|changes)\//;

/** The service must not read for an agent what that cannot: others' refs or objects, by a link or as a borrower. */
const requireOwn = async (context: GitContext, worktree: Worktree): Promise<void> => {
  const { gitDir, worktreeId } = worktree;
  const refuse = (what: string): never => {
    throw new NotCaptured(`the agent's clone leads out of the worktree and is not read (${what})`);
  };
  if (!(await isDirectory(gitDir))) refuse(".git is no directory");
  const wrong = `( -type f -o -type d ) ( ${isObject} -o ${small} ) -o -print -quit`.split(" ");
  const found = await find(context, gitDir, [...partsRead, ...wrong]);
  if (found !== "") refuse(`.git/${shownPath(found.trim()).slice(0, 200)} is no file, or a huge one`);
  const ownDir = ownDirectory(context, worktreeId);
  const own = lendersOf({ ...worktree, ownDir }).map((lender) => join(lender, "objects"));
  const lenders = (await smallTextOf(join(gitDir, "objects/info/alternates"))).split("\n");
  // One that is not there lends nothing: the roots may have been moved.
  const isForeign = (lender: string): boolean =>
    lender !== "" && !own.includes(lender) && (!lender.startsWith("/") || existsSync(lender));
  const foreign = lenders.map((line) => pathBytes(line).toString()).find(isForeign);
  if (foreign !== undefined) refuse(`it borrows from ${foreign.slice(0, 200)}`);
};

/** All but objects and the index, which only git reads, is read at once: 64 MiB at most. */
const [isObject, small] = ["-path objects/* ! -path objects/info/alternates -o -path index", "-size -65537k"];

const partsRead = "HEAD packed-refs index shallow objects refs logs worktrees".split(" ");

const idIn = (text: string): string | null => (/^[0-9a-f]{40}\n?$/.test(text) ? text.slice(0, 40) : null);

/** Ids by name, of an annotated tag its own. */
export type Refs = ReadonlyMap<string, string>;

/**
 * Refs of a git directory of these names or below them. Their objects may be missing. Empty when there is no directory.
 * `read` reads an agent's files, which are compared by content; the service's own are compared by inode, size and time.
 */
export const readRefs = async (dir: string, names: string[], read?: typeof smallTextOf): Promise<Refs> => {
  const loose: [string, string][] = [];
  for (const root of names) {
    const place = join(dir, root);
    const files = await readdir(place, { recursive: true, withFileTypes: true }).catch(() => []);
    const paths = files.filter((entry) => entry.isFile()).map((file) => join(file.parentPath, file.name));
    for (const path of [place, ...paths]) {
      const id = idIn(await (read ?? textOf)(path));
      if (id !== null) loose.push([path.slice(dir.length + 1), id]);
    }
  }
  // Read after the files, which git deletes when it has packed them.
  const packed = await packedRefs(join(dir, "packed-refs"), names, read);
  if (loose.length === 0) return packed;
  const refs = new Map(packed);
  for (const [name, id] of loose) if (isUsual(name)) refs.set(name, id);
  return refs;
};

/** Reads a `packed-refs`. A job asks the same of the same file often, so the latest answers are kept. */
const packedRefs = async (path: string, names: string[], read?: typeof smallTextOf): Promise<Refs> => {
  const text = (await read?.(path)) ?? null;
  const stats = text === null ? await stat(path, { bigint: true }).catch(() => null) : null;
  const version = text === null ? [path, stats?.ino, stats?.size, stats?.mtimeNs] : [hash("sha1", text)];
  const question = [...version, ...names].join(" ");
  return latest.get(question) ?? remember(question, refsIn(text ?? (await textOf(path)), names));
};

const refsIn = (text: string, names: string[]): Refs => {
  const isAsked = (name: string): boolean => names.some((root) => `${name}/`.startsWith(`${root}/`));
  const lines = text.matchAll(/^([0-9a-f]{40}) (refs\/.+)$/gm);
  const refs = Array.from(lines, ([, id = "", name = ""]) => [pathText(name), id] as const);
  return new Map(refs.filter(([name]) => isAsked(name) && isUsual(name)));
};

const latest = new Map<string, Refs>();

/** Keeps answers of at most 200,000 refs together (40 MiB), because agents may write millions. An answer counts as 1,000 more. */
const remember = (question: string, answer: Refs): Refs => {
  const held = [...latest.values()].reduce((sum, { size }) => sum + size + 1_000, answer.size);
  if (held > 200_000) latest.clear();
  else latest.set(question, answer);
  return answer;
};

const isUsual = (name: string): boolean => name.includes("/") && isGitName(name);

/** Longest `info/exclude` of an agent that counts, bytes. */
const longestExclude = 65_536;

const excludedIn = async (context: GitContext, { gitDir, worktreeId }: Worktree): Promise<string[]> => {
  const known = new Set(["", ...(await hiddenIn(ownDirectory(context, worktreeId)))]);
  const text = (await ownText(join(gitDir, "info", "exclude"))).slice(0, longestExclude);
  const lines = text.split("\n").filter((line) => !line.startsWith("#") && !known.has(line));
  return lines.map((line) => pathBytes(line).toString());
};

/** Commits of the stash and of the agent's other worktrees, and those on no branch that were left: only logs name them. */
const unnamedCommits = async (dir: string): Promise<string[]> => {
  const others = (await readdir(join(dir, "worktrees")).catch(() => [])).map((name) => `worktrees/${name}/`);
  const read = (name: string): Promise<string> => smallTextOf(join(dir, name));
  const heads = await Promise.all(others.map((name) => read(`${name}HEAD`)));
  const logs = await Promise.all(["", ...others].map((name) => read(`${name}logs/HEAD`)));
  const stashed = (await read("logs/refs/stash")).matchAll(/^[0-9a-f]{40} ([0-9a-f]{40}) /gm);
  const left = logs.join("").matchAll(/\tcheckout: moving from ([0-9a-f]{40}) to /g);
  const logged = [...stashed, ...left].map(([, commit = ""]) => commit).slice(-500);
  return [...heads.map(idIn).filter((id) => id !== null), ...logged];
};

/** The git directories whose objects both of a worktree's borrow; git leaves out the borrower itself. */
const lendersOf = ({ cacheDir, ownDir, repoKey }: Worktree): string[] =>
  repoKey === null ? [ownDir] : [cacheDir, ownDir];

/** Configuration and HEAD of the service's and the agent's git directory of a worktree. */
export const basicsOf = (worktree: Worktree) => ({
  url: worktree.repoUrl,
  bare: false,
  head: branchRef(worktree),
});

/** `agent`: the clone that is there. `index`: of the branch's tip, or of `head`, which is to be checked out. */
type Written = { agent: AgentClone | null; tip?: string | null; index?: string; head?: string };

/**
 * Writes the agent's clone: nothing that an agent planted, the refs of the remote as cached, its branch at `tip`. From the
 * clone that is there it takes over objects, logs and all other refs; without an index also what is checked out.
 */
export const writeClone = async (
  context: GitContext,
  worktree: Worktree,
  { agent, tip = null, index, head }: Written,
): Promise<void> => {
  const { gitDir, cacheDir, ownDir } = worktree;
  const here = (await isDirectory(gitDir)) ? agent : null;
  const cached = await readRefs(cacheDir, here === null ? remoteRefs : remoteRefs.slice(0, 1));
  if (here === null) await rm(gitDir, { recursive: true, force: true });
  await restoreGitDirectory(context, gitDir, basicsOf(worktree));
  await removePlanted(gitDir);
  // The agent's own `git add` leaves them out.
  const lines = new Set([...(await hiddenIn(ownDir)), ...(here?.exclude ?? [])]);
  await replace(join(gitDir, "info", "exclude"), [...lines, ""].join("\n"));
  await removeLocks(gitDir);
  await borrowObjects(gitDir, lendersOf(worktree));
  const own = [...(here?.refs ?? [])].filter(([name]) => !name.startsWith(remoteBranches));
  const refs = new Map([...own, ...cached]);
  if (tip !== null) refs.set(branchRef(worktree), tip);
  await writeRefs(gitDir, refs, { durable: here !== null });
  if (index === undefined) return;
  await replace(join(gitDir, "HEAD"), `${head ?? `ref: ${branchRef(worktree)}`}\n`);
  await copyIndex(index, join(gitDir, "index"));
};

/** Gives a git directory these refs and no others. */
export const writeRefs = async (gitDir: string, refs: Refs, how: { durable: boolean }): Promise<void> => {
  const text = Array.from(refs, ([name, id]) => `${id} ${name}\n`).join("");
  await replace(join(gitDir, "packed-refs"), text, how);
  remember(`${hash("sha1", text)} refs`, refs);
  await rm(join(gitDir, "refs"), { recursive: true, force: true });
  await makeDirectory(gitDir, "refs/heads");
};

/** `where`: git works there and reads `lenders` too. `without`: commits that are there. `packs` gets the names of packs. */
type Bringing = {
  where: string;
  lenders?: readonly string[];
  without: Iterable<string>;
  into: string;
  packs?: Set<string>;
};

/** Copies commits and what they reach from git directories of the service into one, which may be on another disk, as a pack. */
export const bringObjects = async (
  context: GitContext,
  commits: readonly string[],
  { where, lenders = [], without, into, packs }: Bringing,
): Promise<string[]> => {
  if (commits.length === 0) return [];
  const input = [...commits, ...Array.from(without, (id) => `^${id}`), ""].join("\n");
  const args = ["pack-objects", "--quiet", "--non-empty", "--revs", join(into, "objects", "pack", "pack")];
  const paths = [where, ...lenders].map((gitDir) => JSON.stringify(join(gitDir, "objects")));
  const variables = {
    GIT_OBJECT_DIRECTORY: join(into, "objects"),
    GIT_ALTERNATE_OBJECT_DIRECTORIES: paths.join(":"),
  };
  const { stdout } = await runGit(context, where, args, { input, variables });
  packs?.add(`pack-${stdout.trim()}`);
  return [];
};

/** As `bringObjects`, as far as git can read: halves what fails. Resolves to the ids that it cannot. */
export const bringReadable = (
  context: GitContext,
  ids: readonly string[],
  bringing: Bringing,
): Promise<string[]> => {
  const half = Math.ceil(ids.length / 2);
  const bring = async (some: readonly string[]) => bringReadable(context, some, bringing);
  return unlessRefused(bringObjects(context, ids, bringing), async () =>
    half === ids.length
      ? [...ids]
      : [...(await bring(ids.slice(0, half))), ...(await bring(ids.slice(half)))],
  );
};

/** Bytes; a million files with the longest paths have as many. Git may have written more of no use. */
const largestIndex = 4 * 1024 ** 3;

/**
 * Copies an index, and follows no link: git behind the wall may have made one. Keeps the file time, by which git finds files
 * that changed within the same second. Without files there is no index.
 */
export const copyIndex = async (from: string, to: string): Promise<void> => {
  const source = await open(from, nonBlocking.read | constants.O_NOFOLLOW).catch(() => null);
  try {
    const found = await source?.stat();
    await rm(to, { recursive: true, force: true });
    if (source === null || found?.isFile() !== true || found.size > largestIndex) return;
    const half = `${to}.new`;
    await rm(half, { recursive: true, force: true });
    await writeFile(half, source.createReadStream({ autoClose: false }), { flag: "wx", mode: 0o644 });
    await utimes(half, found.atime, found.mtime);
    await rename(half, to);
  } finally {
    await source?.close();
  }
};

/** The service's index of a worktree; with paths to hide, a copy in which they count as not checked out. */
export const indexHiding = async (context: GitContext, tree: Tree, hidden: string[]): Promise<string> => {
  const own = indexOf(tree.ownDir);
  if (hidden.length === 0) return own;
  const index = join(scratchOf(tree.ownDir), "hiding.index");
  await copyIndex(own, index);
  const copy = { ...tree, index };
  const known = new Set(await listFiles(context, copy));
  const input = pathList(hidden.filter((name) => known.has(name)));
  const args = ["update-index", "--skip-worktree", "-z", "--stdin"];
  if (input.length > 0) await runGit(context, copy, args, { input });
  return index;
};

/** Paths of a worktree that no commit of the service has: where files are exchanged, and what a setup keeps for other jobs. */
export const apartOf = async (ownDir: string): Promise<string[]> => [
  ...Object.values(exchanged),
  ...(await textOf(join(ownDir, "apart"))).split("\n").filter((path) => path !== ""),
];

/** Patterns that the service hides from git in a worktree. */
const hiddenIn = async (ownDir: string) =>
  (await apartOf(ownDir)).map((path) => `/${path}`).concat(runtimeFiles);

/** Files that nothing but the agent's `info/exclude` hides. The index must have all others. Paths are bytes. */
export const hiddenByAgent = async (context: GitContext, worktree: Worktree): Promise<string[]> => {
  const left = (await hiddenIn(worktree.ownDir)).map((each) => `--exclude=${each}`);
  return listFiles(context, worktree, "--others", "--exclude-per-directory=.gitignore", ...left);
};

/** Has no commit have these paths, too. They are plain: see `cache.paths` of a setup. */
export const keepApart = async ({ ownDir }: Worktree, paths: readonly string[]): Promise<void> =>
  await replace(join(ownDir, "apart"), paths.join("\n"));
