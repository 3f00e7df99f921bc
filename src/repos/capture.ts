import { randomUUID } from "node:crypto";
import { copyFile, lstat, rm, stat, utimes } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "../lib/command.ts";
import { GitError } from "../lib/git.ts";
import { hideFromStatus, pathBytes, shownPath } from "./checkout-care.ts";
import { reclaim, textOf, worktreeVariables } from "./clone.ts";
import { runGit, runGitOrNull, type GitContext } from "./git-context.ts";
import { openTree } from "../lib/remove-tree.ts";
import { hasOwnWork } from "./submodule.ts";
import type { Worktree } from "./repos.ts";

/** The empty tree, which git knows without storing it. */
export const emptyTree = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

export type Captured = {
  /** The commit that is checked out, on any branch; null: none. */
  head: string | null;
  headTree: string;
  /** Tip of the worktree's branch; null: it has no commit. */
  tip: string | null;
  /** All files but the ignored ones, as a tree. */
  tree: string;
  /** What git does not take and the tree therefore lacks, a few words each. */
  kept: string[];
};

type Capture = {
  worktree: Worktree;
  signal: AbortSignal;
  /** Links that the checkout left out; their absence is no change. */
  leftOut?: string[];
  /** The agent may still work in it: the modes of its files stay as they are. */
  live?: boolean;
  /** Called with the index file of the tree, which is deleted afterwards. */
  use?: (indexFile: string) => Promise<void>;
};

/**
 * Captures a worktree whose agent has ended, in whatever state. Uses plain git and a temporary index: the worktree's index,
 * HEAD and files stay as they are.
 */
export const capture = async (context: GitContext, request: Capture): Promise<Captured> => {
  const leftOut = (await reclaim(context, request.worktree))?.leftOut ?? [];
  return captureFiles(context, { ...request, leftOut });
};

/** As `capture`, in a git directory that is safe to run git in. */
export const captureFiles = async (
  context: GitContext,
  { worktree, signal, leftOut = [], live = false, use }: Capture,
): Promise<Captured> => {
  const tips = await readTips(context, worktree, signal);
  const index = join(worktree.gitDir, `service-${randomUUID()}.index`);
  const staging = { worktree, index, head: tips.head, leftOut, live, signal };
  try {
    // The worktree's own index tells git which files are unchanged; without it git reads them all.
    const copied = await copyIndex(join(worktree.gitDir, "index"), index);
    if (!copied) await readHead(context, staging);
    const kept = await addAll(context, staging).catch(async (error: unknown) => {
      if (!copied || !(error instanceof GitError) || error.ended !== "exited") throw error;
      // The agent may have broken the index.
      await rm(index, { force: true });
      await readHead(context, staging);
      return addAll(context, staging);
    });
    const call = { variables: variablesOf(staging), signal };
    const tree = (await runGit(context, ["write-tree"], call)).stdout.trim();
    await use?.(index);
    return { ...tips, tree, kept };
  } finally {
    for (const file of [index, `${index}.lock`]) await rm(file, { force: true });
  }
};

/** Keeps the file time, by which git finds files that changed within the same second. False: there is no index. */
const copyIndex = async (from: string, to: string): Promise<boolean> => {
  const found = await stat(from).catch(() => null);
  if (found === null) return false;
  await copyFile(from, to);
  await utimes(to, found.atime, found.mtime);
  return true;
};

const readTips = async (
  context: GitContext,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<Pick<Captured, "head" | "headTree" | "tip">> => {
  const input = `HEAD^{commit}\nHEAD^{tree}\nrefs/heads/${worktree.branch}^{commit}\n`;
  const { stdout } = await runGit(context, ["cat-file", "--batch-check=%(objectname)"], {
    variables: worktreeVariables(worktree),
    input,
    signal,
  });
  const [head = null, headTree = null, tip = null] = stdout
    .split("\n")
    .map((line) => (/^[0-9a-f]{40}$/.test(line) ? line : null));
  return { head, headTree: headTree ?? emptyTree, tip };
};

type Staging = {
  worktree: Worktree;
  index: string;
  head: string | null;
  leftOut: string[];
  live: boolean;
  signal: AbortSignal;
};

const variablesOf = ({ worktree, index }: Pick<Staging, "worktree" | "index">): Record<string, string> => ({
  ...worktreeVariables(worktree),
  GIT_INDEX_FILE: index,
});

const readHead = async (context: GitContext, staging: Staging): Promise<void> => {
  const { head, leftOut, signal } = staging;
  if (head === null) return;
  const variables = variablesOf(staging);
  await runGit(context, ["read-tree", head], { variables, signal });
  await hideFromStatus(context, { variables, paths: leftOut, signal }).catch((error: unknown) => {
    // The agent's commit may lack one of these links, which is then no change.
    if (!(error instanceof GitError)) throw error;
  });
};

/** Adds every file to the index. Resolves to what git does not take. */
const addAll = async (context: GitContext, staging: Staging): Promise<string[]> => {
  const { worktree, signal } = staging;
  const call = { variables: variablesOf(staging), cwd: worktree.path, signal };
  const { hidden, submodules } = await readIndex(context, { ...staging, ...call });
  const input = Buffer.concat(hidden.map((path) => pathBytes(`${path}\0`)));
  if (hidden.length > 0)
    for (const flag of ["--no-assume-unchanged", "--no-skip-worktree"])
      await runGit(context, ["update-index", flag, "-z", "--stdin"], { ...call, input });
  const nested = await nestedRepositories(context, worktree, signal);
  const apart = nested.filter((path) => !submodules.has(path));
  const exclude = apart.map((path) => `:(exclude,literal)${pathBytes(path).toString()}`);
  const add = async (): Promise<string> => {
    try {
      const args = ["add", "--all", "--ignore-errors", "--no-warn-embedded-repo", "--", ".", ...exclude];
      return (await runGit(context, args, call)).stderr;
    } catch (error) {
      // Exit code 1: git left out a file that it could not read, and added all others.
      if (error instanceof GitError && error.exitCode === 1) return error.said;
      throw error;
    }
  };
  let said = await add();
  if (!staging.live && said.includes("Permission denied")) {
    await openTree(worktree.path);
    said = await add();
  }
  const refused = said === "" ? [] : await leftBehind(context, { ...staging, ...call });
  const keeping = await Promise.all(
    nested.map(async (path) => {
      const commit = submodules.get(path);
      return commit === undefined || (await hasOwnWork(context, { worktree, path, commit, signal }));
    }),
  );
  return [
    ...nested.filter((_, nth) => keeping[nth]).map(describeNested(submodules)),
    ...refused.filter((path) => !apart.includes(path)).map((path) => `git does not take ${shownPath(path)}`),
  ];
};

const describeNested =
  (submodules: Map<string, string>) =>
  (path: string): string =>
    `${submodules.has(path) ? "submodule" : "nested repository"} at ${shownPath(path)}`;

type Listing = Pick<Staging, "worktree" | "signal"> & { variables: Record<string, string> };

/**
 * `hidden`: paths that exist but that the index tells git to ignore. `submodules`: the commits of other repositories, by
 * path. `directories`: those of the files. Paths are bytes, one character each.
 */
export const readIndex = async (
  context: GitContext,
  { worktree, variables, signal }: Listing,
): Promise<{ hidden: string[]; submodules: Map<string, string>; directories: Set<string> }> => {
  const { stdout } = await runGit(context, ["ls-files", "-v", "--stage", "-z"], {
    variables,
    maxOutputBytes: 1024 * 1024 * 1024,
    encoding: "latin1",
    signal,
  });
  const assumed: string[] = [];
  const skipped: string[] = [];
  const submodules = new Map<string, string>();
  const directories = new Set<string>();
  for (const entry of stdout.split("\0")) {
    const path = entry.slice(entry.indexOf("\t") + 1);
    if (entry.startsWith("160000", 2)) submodules.set(path, entry.slice(9, 49));
    for (let at = path.lastIndexOf("/"); at > 0; at = path.lastIndexOf("/", at - 1)) {
      if (directories.has(path.slice(0, at))) break;
      directories.add(path.slice(0, at));
    }
    if (entry.startsWith("S") || entry.startsWith("s")) skipped.push(path);
    else if (/^[a-z]/.test(entry)) assumed.push(path);
  }
  // A file that is not checked out counts only if something exists at its path: that is work.
  const present = await Promise.all(skipped.map((path) => isPresent(worktree.path, path)));
  const hidden = [...assumed, ...skipped.filter((_, nth) => present[nth])];
  return { hidden, submodules, directories };
};

export const isPresent = async (root: string, path: string): Promise<boolean> =>
  (await lstat(Buffer.concat([Buffer.from(`${root}/`), pathBytes(path)])).catch(() => null)) !== null;

/** What git left out when it added everything: names that it refuses, files and directories that it cannot read. */
const leftBehind = async (
  context: GitContext,
  { worktree, variables, signal }: Listing,
): Promise<string[]> => {
  const { stdout } = await runGit(
    context,
    ["ls-files", "-z", "--exclude-standard", "--others", "--modified", "--directory"],
    {
      cwd: worktree.path,
      variables,
      maxOutputBytes: 256 * 1024 * 1024,
      encoding: "latin1",
      signal,
    },
  );
  const named = stdout.split("\0").filter((path) => path !== "");
  const paths = [...new Set(named.map((path) => path.replace(/\/$/, "")))];
  const present = await Promise.all(paths.map((path) => isPresent(worktree.path, path)));
  return paths.filter((_, nth) => present[nth]);
};

/** Directories with a repository of their own that git does not ignore. Paths are bytes. */
const nestedRepositories = async (
  context: GitContext,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<string[]> => {
  const { path } = worktree;
  // `find`, because a large tree would block this process.
  const { stdout } = await runCommand({
    command: "/usr/bin/find",
    args: [".", "-mindepth", "2", "-name", ".git", "-not", "-path", "./.git/*", "-prune", "-print0"],
    cwd: path,
    env: { LC_ALL: "C" },
    encoding: "latin1",
    timeoutSeconds: context.settings.gitTimeout,
    signal,
  });
  const found = stdout.split("\0").flatMap((file) => (file === "" ? [] : [file.slice(2, -"/.git".length)]));
  if (found.length === 0) return [];
  const call = { variables: worktreeVariables(worktree), cwd: path, encoding: "latin1" as const, signal };
  const input = Buffer.concat(found.map((name) => pathBytes(`${name}\0`)));
  const ignored = await runGitOrNull(context, ["check-ignore", "-z", "--stdin"], { ...call, input });
  const isIgnored = new Set(ignored?.stdout.split("\0"));
  return found.filter((name) => !isIgnored.has(name));
};

type Unsaved = {
  worktree: Worktree;
  /** The commit that the service pushed, if that counts as saved. It does not when the job fails after the push. */
  pushed?: string | null;
  maxCount?: number;
  signal: AbortSignal;
};

/**
 * Commits of the clone that neither the remote nor the base has: on any branch, in the stash, or once checked out on no
 * branch. Only those that are no ancestor of another, newest first. The cached clone knows what the remote has; the
 * agent may have made remote-tracking refs of any kind.
 */
export const unsavedCommits = async (
  context: GitContext,
  { worktree, pushed = null, maxCount: most, signal }: Unsaved,
): Promise<string[]> => {
  const { gitDir, baseSha } = worktree;
  const stash = await textOf(join(gitDir, "logs", "refs", "stash"));
  const head = await textOf(join(gitDir, "logs", "HEAD"));
  const unnamed = [
    ...[...stash.matchAll(/^[0-9a-f]{40} ([0-9a-f]{40}) /gm)].map(([, commit = ""]) => commit),
    // A detached commit that was left: only the log names it.
    ...[...head.matchAll(/\tcheckout: moving from ([0-9a-f]{40}) to /g)].map(([, commit = ""]) => commit),
  ];
  const included = ["--exclude=refs/remotes/*", "--all", ...new Set(unnamed.slice(-500))];
  const known = ["--not", "--alternate-refs", ...[baseSha, pushed].filter((commit) => commit !== null)];
  const bound = most === undefined ? [] : [`--max-count=${most}`];
  const { stdout } = await runGit(
    context,
    ["rev-list", "--parents", "--ignore-missing", ...bound, ...included, ...known],
    { variables: worktreeVariables(worktree), maxOutputBytes: 256 * 1024 * 1024, signal },
  );
  const lines = stdout.split("\n").filter((line) => line !== "");
  const followed = new Set(lines.flatMap((line) => line.split(" ").slice(1)));
  return lines.map((line) => line.slice(0, 40)).filter((commit) => !followed.has(commit));
};
