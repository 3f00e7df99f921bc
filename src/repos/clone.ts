import {
  lstat,
  mkdir,
  readdir,
  readFile,
  realpath,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
  copyFile,
} from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import { pathBytes } from "./checkout-care.ts";
import { gitDirVariables, runGit, type GitContext } from "./git-context.ts";
import {
  borrowObjects,
  canonicalConfig,
  makeGitDirectory,
  removeLocks,
  restoreGitDirectory,
} from "./git-directory.ts";
import { ownDirectory, readOwner, type OwnerFile } from "./owner-file.ts";
import { isRefName } from "./ref.ts";
import { RepoError, type Worktree } from "./repos.ts";

/**
 * A worktree has two git directories. `gitDir` is the agent's clone: the service makes it, reads its text files and its
 * objects, and never runs git in it. `ownDir` lies beside the owner file, has an index of its own, and borrows the objects
 * of cache and agent: all git of the service runs there.
 */
export const worktreeVariables = ({
  path,
  ownDir,
}: Pick<Worktree, "path" | "ownDir">): Record<string, string> => ({
  ...gitDirVariables(ownDir),
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

export const branchRef = ({ branch }: Pick<Worktree, "branch">): string => `refs/heads/${branch}`;

/** The empty tree, which git knows without storing it. */
export const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/** What the agent's clone names. Its ids are not checked: the objects may be missing. */
export type AgentClone = {
  dir: string;
  /** The ref that is checked out; null: a commit on no branch. */
  on: string | null;
  head: string | null;
  refs: Map<string, string>;
  /** Commits that branches, the stash or a HEAD name, or that were once checked out on no branch. */
  tips: string[];
};

/** Reads it as text, so that nothing an agent wrote can steer git; a damaged line names nothing. */
export const readAgentClone = async (worktree: Worktree): Promise<AgentClone> => {
  const { path, gitDir, baseSha } = worktree;
  // A `.git` that is a file names the directory; one that is a link leads there.
  const [, named] = /^gitdir: (.+)\n*$/.exec(await textOf(gitDir)) ?? [];
  const dir = named === undefined ? gitDir : resolve(path, pathBytes(named).toString());
  const refs = await readRefs(dir);
  // Without a clone, the files count as changes since the base.
  if (baseSha !== null && (await stat(dir).catch(() => null))?.isDirectory() !== true)
    refs.set(branchRef(worktree), baseSha);
  const text = await textOf(join(dir, "HEAD"));
  const detached = idIn(text);
  const on = detached === null ? (/^ref: (refs\/\S+)\n?$/.exec(text)?.[1] ?? branchRef(worktree)) : null;
  const head = detached ?? refs.get(on ?? "") ?? null;
  const own = [...refs].flatMap(([name, id]) => (name.startsWith("refs/remotes/") ? [] : [id]));
  const tips = new Set([...(head === null ? [] : [head]), ...own, ...(await unnamedCommits(dir))]);
  return { dir, on, head, refs, tips: [...tips] };
};

const idIn = (text: string): string | null => (/^[0-9a-f]{40}\n?$/.test(text) ? text.slice(0, 40) : null);

export const readRefs = async (dir: string): Promise<Map<string, string>> => {
  const packed = (await textOf(join(dir, "packed-refs"))).matchAll(/^([0-9a-f]{40}) (refs\/.+)$/gm);
  const refs = new Map(Array.from(packed, ([, id = "", name = ""]) => [name, id]));
  const files = await readdir(join(dir, "refs"), { recursive: true, withFileTypes: true }).catch(() => []);
  for (const file of files.filter((entry) => entry.isFile())) {
    const path = join(file.parentPath, file.name);
    const id = idIn(await textOf(path));
    if (id !== null) refs.set(path.slice(dir.length + 1), id);
  }
  return refs;
};

/** Commits of the stash and of the agent's other worktrees, and those on no branch that were left: only logs name them. */
const unnamedCommits = async (dir: string): Promise<string[]> => {
  const others = (await readdir(join(dir, "worktrees")).catch(() => [])).map((name) => `worktrees/${name}/`);
  const read = (name: string): Promise<string> => textOf(join(dir, name));
  const heads = await Promise.all(others.map((name) => read(`${name}HEAD`)));
  const logs = await Promise.all(["", ...others].map((name) => read(`${name}logs/HEAD`)));
  const stashed = (await read("logs/refs/stash")).matchAll(/^[0-9a-f]{40} ([0-9a-f]{40}) /gm);
  const left = logs.join("").matchAll(/\tcheckout: moving from ([0-9a-f]{40}) to /g);
  const logged = [...stashed, ...left].map(([, commit = ""]) => commit).slice(-500);
  return [...heads.map(idIn).filter((id) => id !== null), ...logged];
};

/** The git directories whose objects both of a worktree's borrow; git leaves out the borrower itself. */
const lendersOf = (
  context: GitContext,
  { worktree, source }: Pick<OwnerFile, "worktree" | "source">,
): string[] => [
  worktree.cacheDir,
  ...(source === null ? [] : [ownDirectory(context, source)]),
  ownDirectory(context, worktree.worktreeId),
];

/**
 * Readies the service's git directory of a worktree, whose directory must exist, and reads the agent's clone.
 * @throws RepoError when the cached clone is missing
 */
export const openWorktree = async (
  context: GitContext,
  worktree: Worktree,
): Promise<{ agent: AgentClone; owned: OwnerFile | null }> => {
  const { cacheDir, repoKey, repoUrl: url, path, ownDir } = worktree;
  if ((await lstat(cacheDir).catch(() => null)) !== null) {
    const config = canonicalConfig(context.settings, { url: repoKey === null ? null : url, bare: true });
    await restoreGitDirectory(cacheDir, { config, head: "refs/heads/main" });
  } else if (repoKey !== null)
    throw new RepoError(
      "worktree_failed",
      `The cached clone ${cacheDir} was deleted while its worktree ${path} was in use. The files are still there: copy what is needed, and submit the task again.`,
    );
  const [agent, owned] = [await readAgentClone(worktree), await readOwner(context, worktree.worktreeId)];
  const made = { config: configOf(context, worktree), head: branchRef(worktree) };
  if ((await lstat(ownDir).catch(() => null)) === null) await makeGitDirectory(ownDir, made);
  await restoreGitDirectory(ownDir, made);
  await removeLocks(ownDir);
  await borrowObjects(ownDir, [
    ...lendersOf(context, { worktree, source: owned?.source ?? null }),
    agent.dir,
  ]);
  return { agent, owned };
};

type Handed = { tip: string | null; index: string; refs?: Refs };

/** Makes the agent's clone, with the refs of the remote and a branch at this commit. */
export const makeClone = async (
  context: GitContext,
  owned: Pick<OwnerFile, "worktree" | "source">,
  { tip, index, refs = [] }: Handed,
): Promise<void> => {
  const { worktree } = owned;
  const { gitDir } = worktree;
  await rm(gitDir, { recursive: true, force: true });
  await makeGitDirectory(gitDir, { config: configOf(context, worktree), head: branchRef(worktree) });
  await borrowObjects(gitDir, lendersOf(context, owned));
  const all = tip === null ? refs : [...refs, { sha: tip, name: branchRef(worktree) }];
  await writeFile(join(gitDir, "packed-refs"), all.map(({ sha, name }) => `${sha} ${name}\n`).join(""));
  await copyIndex(index, join(gitDir, "index"));
};

/** Readies the agent's clone for the next agent: nothing that the last one planted, the refs of the remote as cached. */
export const renewClone = async (
  context: GitContext,
  { worktree, source }: OwnerFile,
  { agent, refs, signal }: { agent: AgentClone; refs: Refs; signal: AbortSignal },
): Promise<void> => {
  const { gitDir, ownDir, baseSha } = worktree;
  if ((await lstat(gitDir).catch(() => null))?.isDirectory() !== true) {
    const reset = ["read-tree", "-i", "--reset", baseSha ?? emptyTree];
    await runGit(context, reset, { variables: worktreeVariables(worktree), signal });
    return makeClone(context, { worktree, source }, { tip: baseSha, index: join(ownDir, "index"), refs });
  }
  await restoreGitDirectory(gitDir, { config: configOf(context, worktree), head: branchRef(worktree) });
  await removeLocks(gitDir);
  await borrowObjects(gitDir, lendersOf(context, { worktree, source }));
  // Not its tags: pruning would delete the agent's own.
  const remotes = "refs/remotes/origin/";
  await rm(join(gitDir, remotes), { recursive: true, force: true });
  const packed = new Map([...agent.refs].filter(([name]) => isRefName(name) && !name.startsWith(remotes)));
  for (const { name, sha } of refs) if (name.startsWith(remotes)) packed.set(name, sha);
  const lines = [...packed].map(([name, sha]) => `${sha} ${name}\n`);
  await writeFileAtomic(join(gitDir, "packed-refs"), lines.join(""), 0o644);
};

/** Gives the agent's clone this commit as the tip of its branch, checked out as the index has it. */
export const handOver = async (
  context: GitContext,
  worktree: Worktree,
  { tip, index, signal }: { tip: string; index: string; signal: AbortSignal },
): Promise<void> => {
  const { gitDir, ownDir, cacheDir } = worktree;
  if ((await lstat(gitDir).catch(() => null))?.isDirectory() !== true) {
    const refs = await cachedRefs(context, { cacheDir, names: remoteRefs, signal });
    // The agent's clone is elsewhere, and not read any more.
    const input = [tip, ...refs.map(({ sha }) => `^${sha}`), ""].join("\n");
    const pack = ["pack-objects", "--quiet", "--revs", join(ownDir, "objects", "pack", "pack")];
    await runGit(context, pack, { variables: worktreeVariables(worktree), input, signal });
    const source = (await readOwner(context, worktree.worktreeId))?.source ?? null;
    return makeClone(context, { worktree, source }, { tip, index, refs });
  }
  await borrowObjects(gitDir, lendersOf(context, { worktree, source: null }));
  await writeRef(gitDir, branchRef(worktree), `${tip}\n`);
  await writeRef(gitDir, "HEAD", `ref: ${branchRef(worktree)}\n`);
  await copyIndex(index, join(gitDir, "index"));
};

/** Follows no link that an agent may have made. */
export const writeRef = async (gitDir: string, name: string, text: string): Promise<void> => {
  const file = join(gitDir, name);
  await mkdir(dirname(file), { recursive: true });
  if ((await realpath(dirname(file))) !== dirname(file)) throw new Error(`${dirname(file)} is a link`);
  await writeFileAtomic(file, text, 0o644);
};

/** Keeps the file time, by which git finds files that changed within the same second. Without files there is no index. */
export const copyIndex = async (from: string, to: string): Promise<void> => {
  const found = await stat(from).catch(() => null);
  await rm(to, { recursive: true, force: true });
  if (found === null) return;
  const half = `${to}.new`;
  await rm(half, { recursive: true, force: true });
  await copyFile(from, half);
  await utimes(half, found.atime, found.mtime);
  await rename(half, to);
};

/**
 * The service's index of a worktree; with paths that count as not checked out, a copy in which those that it has are
 * marked so.
 */
export const indexHiding = async (
  context: GitContext,
  { worktree, paths, signal }: { worktree: Worktree; paths: string[]; signal: AbortSignal },
): Promise<string> => {
  const own = join(worktree.ownDir, "index");
  if (paths.length === 0) return own;
  const index = join(worktree.ownDir, "hiding.index");
  await copyIndex(own, index);
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: index };
  const listing = { variables, encoding: "latin1" as const, maxOutputBytes: 1024 * 1024 * 1024, signal };
  const known = new Set((await runGit(context, ["ls-files", "-z"], listing)).stdout.split("\0"));
  const input = Buffer.concat(paths.filter((path) => known.has(path)).map((path) => pathBytes(`${path}\0`)));
  const args = ["update-index", "--skip-worktree", "-z", "--stdin"];
  if (input.length > 0) await runGit(context, args, { variables, input, signal });
  return index;
};

/** Empty: there is no such file. */
export const textOf = (file: string): Promise<string> =>
  readFile(file, { encoding: "latin1", flag: nonBlocking.read }).catch(() => "");
