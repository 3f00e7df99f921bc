import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { runCommand } from "../lib/command.ts";
import { GitError } from "../lib/git.ts";
import { fetchRepo } from "./cache.ts";
import { pathBytes, shownPath } from "./checkout-care.ts";
import {
  branchRef,
  cachedRefs,
  emptyTree,
  indexHiding,
  openWorktree,
  remoteRefs,
  worktreeVariables,
  type AgentClone,
} from "./clone.ts";
import { runGit, runGitOrNull, type GitContext } from "./git-context.ts";
import type { OwnerFile } from "./owner-file.ts";
import { openTree } from "../lib/remove-tree.ts";
import { hasOwnWork } from "./submodule.ts";
import { NotCaptured, type Worktree } from "./repos.ts";

export type Captured = {
  agent: AgentClone;
  owned: OwnerFile | null;
  /** The commit that is checked out, on any branch; null: none. */
  head: string | null;
  headTree: string;
  /** Tip of the worktree's branch; null: it has no commit. */
  tip: string | null;
  /** All files but the ignored ones, as a tree. */
  tree: string;
  /** The file of the index that has this tree. */
  index: string;
  /** The agent's index has other content than the commit that is checked out. */
  isStaged: boolean;
  /** What git does not take and the tree therefore lacks, a few words each. */
  kept: string[];
};

type Target = { worktree: Worktree; signal: AbortSignal };

/** `live`: the agent may still work in it; the modes of its files stay as they are. */
type Capture = Target & { live?: boolean };

/** Captures a worktree, in whatever state its agent left it. Changes nothing that the agent uses. */
export const capture = async (
  context: GitContext,
  { worktree, signal, live = false }: Capture,
): Promise<Captured> => {
  const { agent, owned } = await readWhole(context, { worktree, signal });
  const call = { variables: worktreeVariables(worktree), cwd: worktree.path, signal };
  const input = `${agent.head}^{commit}\n${agent.head}^{tree}\n${agent.refs.get(branchRef(worktree))}^{commit}\n`;
  const { stdout } = await runGit(context, ["cat-file", "--batch-check=%(objectname)"], { ...call, input });
  const [head = null, tree = null, tip = null] = stdout
    .split("\n")
    .map((line) => (/^[0-9a-f]{40}$/.test(line) ? line : null));
  const headTree = tree ?? emptyTree;
  // Unchanged files keep what the index knows of them, so that git need not read them.
  await runGit(context, ["read-tree", "-i", "--reset", headTree], call);
  const { staged, skipped } = await readAgentIndex(context, { worktree, agent, headTree, signal });
  const stage = ["update-index", "-z", "--index-info"];
  if (staged !== "") await runGit(context, stage, { ...call, input: pathBytes(staged) });
  const left = [...new Set([...(owned?.leftOut ?? []), ...skipped])];
  const present = await Promise.all(left.map((path) => isPresent(worktree.path, path)));
  const paths = left.filter((_, nth) => !present[nth]);
  const index = await indexHiding(context, { worktree, paths, signal });
  const variables = { ...call.variables, GIT_INDEX_FILE: index };
  const kept = await addAll(context, { worktree, variables, live, signal });
  const written = (await runGit(context, ["write-tree"], { ...call, variables })).stdout.trim();
  return { agent, owned, head, headTree, tip, tree: written, index, isStaged: staged !== "", kept };
};

/**
 * Opens a worktree whose commits all have their history: what an agent's `git fetch --depth` left out, the cached clone
 * has or fetches.
 * @throws NotCaptured when the history stays cut
 */
export const readWhole = async (
  context: GitContext,
  { worktree, signal }: Target,
): Promise<Awaited<ReturnType<typeof openWorktree>>> => {
  const opened = await openWorktree(context, worktree);
  const { agent } = opened;
  if ((await lstat(join(agent.dir, "shallow")).catch(() => null)) === null) return opened;
  const isWhole = (): Promise<boolean> =>
    unsavedCommits(context, { worktree, agent, signal }).then(
      () => true,
      (error: unknown) => {
        if (error instanceof GitError && error.ended === "exited") return false;
        throw error;
      },
    );
  if (await isWhole()) return opened;
  const { repoUrl: url } = worktree;
  if (url !== "")
    await fetchRepo(context, { url, signal, allowLocal: true }).catch(() => signal.throwIfAborted());
  if (await isWhole()) return opened;
  throw new NotCaptured(
    "a history that the agent's shallow fetch cut, and that the remote could not complete",
  );
};

type AgentIndex = Target & { agent: AgentClone; headTree: string };

/**
 * What the agent staged, for `update-index`, and the paths that its index has as not checked out (a sparse checkout).
 * Paths are bytes, one character each. Nothing when the index is missing or broken.
 */
const readAgentIndex = async (
  context: GitContext,
  { worktree, agent, headTree, signal }: AgentIndex,
): Promise<{ staged: string; skipped: string[] }> => {
  const index = join(agent.dir, "index");
  if ((await lstat(index).catch(() => null))?.isFile() !== true) return { staged: "", skipped: [] };
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: index };
  const call = { variables, encoding: "latin1" as const, maxOutputBytes: 1024 * 1024 * 1024, signal };
  try {
    const args = ["diff-index", "--cached", "--raw", "--no-renames", "-z", headTree];
    const fields = (await runGit(context, args, call)).stdout.split("\0");
    const lines = fields.flatMap((field, nth) => {
      const [, , mode, , id, status] = /^:(\d+) (\d+) (\w+) (\w+) ([A-Z])$/.exec(field) ?? [];
      return mode === undefined || status === "U" ? [] : [`${mode} ${id}\t${fields[nth + 1]}\0`];
    });
    const listed = (await runGit(context, ["ls-files", "-v", "-z"], call)).stdout.split("\0");
    const skipped = listed.flatMap((entry) => (/^s /i.test(entry) ? [entry.slice(2)] : []));
    return { staged: lines.join(""), skipped };
  } catch (error) {
    if (error instanceof GitError && error.ended === "exited") return { staged: "", skipped: [] };
    throw error;
  }
};

type Listing = Target & { variables: Record<string, string> };

/** Adds every file to the index. Resolves to what git does not take. */
const addAll = async (context: GitContext, adding: Listing & { live: boolean }): Promise<string[]> => {
  const { worktree, variables, live, signal } = adding;
  const nested = await nestedRepositories(context, adding);
  const submodules = nested.length === 0 ? new Map<string, string>() : await submodulesIn(context, adding);
  const apart = nested.filter((path) => !submodules.has(path));
  const input = pathBytes([".", ...apart.map((path) => `:(exclude,literal)${path}`)].join("\0"));
  const add = async (): Promise<string> => {
    const args = ["add", "--all", "--ignore-errors", "--no-warn-embedded-repo"];
    const paths = ["--pathspec-from-file=-", "--pathspec-file-nul"];
    try {
      return (await runGit(context, [...args, ...paths], { variables, cwd: worktree.path, input, signal }))
        .stderr;
    } catch (error) {
      // Exit code 1: git left out a file that it could not read, and added all others.
      if (error instanceof GitError && error.exitCode === 1) return error.said;
      throw error;
    }
  };
  let said = await add();
  if (!live && said.includes("Permission denied")) {
    await openTree(worktree.path);
    said = await add();
  }
  const refused = said === "" ? [] : await leftBehind(context, adding);
  const keeping = await Promise.all(
    nested.map(async (path) => {
      const commit = submodules.get(path);
      return commit === undefined || (await hasOwnWork(context, { worktree, path, commit, signal }));
    }),
  );
  const kind = (path: string): string => (submodules.has(path) ? "submodule" : "nested repository");
  return [
    ...nested.filter((_, nth) => keeping[nth]).map((path) => `${kind(path)} at ${shownPath(path)}`),
    ...refused.filter((path) => !apart.includes(path)).map((path) => `git does not take ${shownPath(path)}`),
  ];
};

/** The commits of other repositories in the index, by path. Paths are bytes, one character each. */
const submodulesIn = async (
  context: GitContext,
  { variables, signal }: Listing,
): Promise<Map<string, string>> => {
  const call = { variables, maxOutputBytes: 1024 * 1024 * 1024, encoding: "latin1" as const, signal };
  const { stdout } = await runGit(context, ["ls-files", "--stage", "-z"], call);
  const entries = stdout.split("\0").filter((entry) => entry.startsWith("160000 "));
  return new Map(entries.map((entry) => [entry.slice(entry.indexOf("\t") + 1), entry.slice(7, 47)]));
};

const isPresent = async (root: string, path: string): Promise<boolean> =>
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
  { worktree: { path }, variables, signal }: Listing,
): Promise<string[]> => {
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
  const call = { variables, cwd: path, encoding: "latin1" as const, signal };
  const input = Buffer.concat(found.map((name) => pathBytes(`${name}\0`)));
  const ignored = await runGitOrNull(context, ["check-ignore", "-z", "--stdin"], { ...call, input });
  const isIgnored = new Set(ignored?.stdout.split("\0"));
  return found.filter((name) => !isIgnored.has(name));
};

type Unsaved = Target & {
  agent: AgentClone;
  /** The commit that the service pushed, if that counts as saved. It does not when the job fails after the push. */
  pushed?: string | null;
  maxCount?: number;
};

/**
 * Commits of the agent's clone that neither the remote nor the base has. Only those that are no ancestor of another,
 * newest first. The cached clone knows what the remote has; the agent may have made remote-tracking refs of any kind.
 */
export const unsavedCommits = async (
  context: GitContext,
  { worktree, agent, pushed = null, maxCount: most, signal }: Unsaved,
): Promise<string[]> => {
  const { cacheDir, baseSha } = worktree;
  const remote = await cachedRefs(context, { cacheDir, names: remoteRefs, signal });
  const known = [baseSha, pushed, ...remote.map(({ sha }) => sha)].filter((commit) => commit !== null);
  const input = [...agent.tips, ...known.map((commit) => `^${commit}`), ""].join("\n");
  const bound = most === undefined ? [] : [`--max-count=${most}`];
  const { stdout } = await runGit(
    context,
    ["rev-list", "--parents", "--ignore-missing", ...bound, "--stdin"],
    { variables: worktreeVariables(worktree), maxOutputBytes: 256 * 1024 * 1024, input, signal },
  );
  const lines = stdout.split("\n").filter((line) => line !== "");
  const followed = new Set(lines.flatMap((line) => line.split(" ").slice(1)));
  return lines.map((line) => line.slice(0, 40)).filter((commit) => !followed.has(commit));
};

/** As `capture`; the reason when git cannot capture the directory. */
export const captureOrReason = (context: GitContext, target: Capture): Promise<Captured | string> =>
  capture(context, target).catch((error: unknown) => {
    if (error instanceof NotCaptured) return error.message;
    if (error instanceof GitError && !outOfRoom.test(error.said))
      return `git cannot take what is in it (${error.message.slice(0, 300)})`;
    throw error;
  });

/** Failures of the disk are temporary: they are no reason to give the work up. */
const outOfRoom = /No space left|quota exceeded|Read-only file system|Input\/output error/i;
