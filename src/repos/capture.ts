import { lstat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { openTree } from "../lib/remove-tree.ts";
import { fetchRepo } from "./cache.ts";
import { absentIn, pathBytes, pathList, shownPath } from "./path-bytes.ts";
import {
  apartOf,
  branchRef,
  emptyTree,
  indexHiding,
  readRefs,
  remoteRefs,
  type AgentClone,
} from "./clone.ts";
import { filledPointers } from "./lfs.ts";
import { runGit, unlessRefused, type GitContext, type Where } from "./git-context.ts";
import { find, repositoriesIn } from "./find.ts";
import { listFiles, stageEntries } from "./git-index.ts";
import { objectsAt } from "./git-objects.ts";
import { importCaptured } from "./import.ts";
import { ignoredOf } from "./left-out.ts";
import { openWorktree } from "./open-worktree.ts";
import { ownDirectory, type OwnerFile } from "./owner-file.ts";
import { remoteBranches } from "./ref.ts";
import { NotCaptured, runtimeFiles, type Worktree } from "./repos.ts";
import { hasOwnWork, headOf, isReal, withInner } from "./submodule.ts";
import { restoreUntouched, takeModes } from "./untouched.ts";
import { staysInside, type Tree } from "./wall.ts";

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
  /** Files that look changed to git and are as they were checked out: the index knows nothing of their times. Paths are bytes. */
  restored: string[];
};

/** `live`: the agent may still work there, and the modes of its files stay as they are. `filesOnly`: without its clone. */
export type How = { live?: boolean; filesOnly?: boolean };

/** Captures a worktree, in whatever state its agent left it. Changes nothing that the agent uses. */
export const capture = async (
  context: GitContext,
  worktree: Worktree,
  { live = false, filesOnly = false }: How = {},
): Promise<Captured> => {
  const { agent, owned } = await (filesOnly
    ? openWorktree(context, worktree, { filesOnly })
    : readWhole(context, worktree));
  const { submodules } = owned?.worktree ?? worktree;
  const behind = { ...worktree, submodules, ...(filesOnly && { lenders: [] }) };
  const { head, headTree, tip, commits } = await readTips(context, behind, agent);
  // Unchanged files keep what the index knows of them, so that git need not read them.
  await runGit(context, behind, ["read-tree", "-i", "--reset", headTree]);
  const filled = await filledPointers(context, behind);
  const { staged, skipped } = await readAgentIndex(context, behind, { agent, headTree });
  await stageEntries(context, behind, staged);
  const hidden = await absentIn(worktree.path, [...(owned?.leftOut ?? []), ...skipped]);
  const index = await indexHiding(context, behind, [...hidden, ...filled]);
  const adding = { ...behind, index };
  const apart = await withoutApart(context, adding);
  const { kept, restored } = await addAll(context, adding, { live, apart, headTree, staged });
  if (filled.length > 0) {
    const unhide = ["update-index", "--no-skip-worktree", "-z", "--stdin"];
    await runGit(context, adding, unhide, { input: pathList(filled) });
    await takeModes(context, adding);
  }
  const tree = (await runGit(context, adding, ["write-tree"])).stdout.trim();
  if (!/^[0-9a-f]{40}$/.test(tree)) throw new NotCaptured("git has written no tree");
  await importCaptured(context, adding, { commits, tree, head });
  return { agent, owned, head, headTree, tip, tree, index, isStaged: staged.length > 0, kept, restored };
};

/** What the ids of the agent's clone name; what is missing, or of another kind, is left out. `commits`: all, to be saved. */
const readTips = async (context: GitContext, tree: Worktree & Tree, { head, refs, tips }: AgentClone) => {
  const names = [`${head}^{commit}`, `${head}^{tree}`, `${refs.get(branchRef(tree))}^{commit}`, ...tips];
  const [commit, files, tip, ...found] = await objectsAt(context, tree, names);
  const isCommit = (nth: number): boolean => ["commit", "tag"].includes(found[nth]?.type ?? "");
  const commits = tips.filter((id, nth) => found[nth]?.id === id && isCommit(nth));
  return { head: commit?.id ?? null, headTree: files?.id ?? emptyTree, tip: tip?.id ?? null, commits };
};

/** Opens a worktree, and completes a history that `git fetch --depth` of the agent cut. @throws NotCaptured where that fails */
export const readWhole = async (context: GitContext, worktree: Worktree) => {
  const opened = await openWorktree(context, worktree);
  const { agent } = opened;
  if ((await lstat(join(agent.dir, "shallow")).catch(() => null)) === null) return opened;
  const isWhole = async (): Promise<boolean> =>
    (await unlessRefused(unsavedCommits(context, worktree, { agent }, worktree), () => null)) !== null;
  if (await isWhole()) return opened;
  const { repoUrl: url } = worktree;
  if (url !== "")
    await fetchRepo(context, { url, allowLocal: true }).catch(() => context.signal.throwIfAborted());
  await openWorktree(context, worktree);
  if (await isWhole()) return opened;
  const why = "a history that the agent's shallow fetch cut, and that the remote could not complete";
  throw new NotCaptured(why);
};

/** What the agent staged, as entries, and the paths outside of its sparse checkout. Nothing of a broken index. */
const readAgentIndex = async (
  context: GitContext,
  worktree: Worktree,
  { agent, headTree }: Pick<Captured, "agent" | "headTree">,
): Promise<Record<"staged" | "skipped", string[]>> => {
  const index = join(agent.dir, "index");
  const none = { staged: [], skipped: [] };
  if ((await lstat(index).catch(() => null))?.isFile() !== true) return none;
  const read = async (...args: string[]): Promise<string[]> =>
    (await runGit(context, { ...worktree, index }, args, { encoding: "latin1" })).stdout.split("\0");
  const reading = async () => {
    const fields = await read("diff-index", "--cached", "--raw", "--no-renames", "-z", headTree);
    const staged = fields.flatMap((field, nth) => {
      const [, , mode, , id, status] = /^:(\d+) (\d+) (\w+) (\w+) ([A-Z])$/.exec(field) ?? [];
      return mode === undefined || status === "U" ? [] : [`${mode} ${id}\t${fields[nth + 1]}`];
    });
    const listed = await read("ls-files", "-v", "-z");
    const skipped = listed.flatMap((entry) => (/^s /i.test(entry) ? [entry.slice(2)] : []));
    return { staged, skipped };
  };
  return unlessRefused(reading(), () => none);
};

type Adding = Worktree & Tree & { index: string };

/** Whether it is a path that no commit has, or that alone is in it. */
const isApart = (path: string, apart: readonly string[]): boolean =>
  path === ".svc" || apart.some((each) => `${path}/`.startsWith(`${each}/`));

/** Gives the index what the base has of them, whatever the agent has added or committed. Resolves to what is not to be added. */
const withoutApart = async (context: GitContext, adding: Adding): Promise<readonly string[]> => {
  const { baseSha, ownDir, worktreeId } = adding;
  // A diff beside the agent works in another git directory.
  const paths = await apartOf(ownDirectory(context, worktreeId));
  // Git takes no path that leads through a link.
  const isReached = await Promise.all(paths.map((path) => isReal(dirname(join(adding.path, path)))));
  const apart = paths.filter((_, nth) => isReached[nth]);
  if (apart.length === 0) return apart;
  const indexed = await listFiles(context, adding, "--", ...apart);
  if (indexed.length === 0) return apart;
  const asked = ["ls-tree", "-r", "-z", baseSha ?? emptyTree, "--", ...apart];
  const { stdout } = await runGit(context, ownDir, asked, { encoding: "latin1" });
  await stageEntries(context, adding, [...indexed.map(removed), ...stdout.split("\0").filter(Boolean)]);
  return apart;
};

type HowToAdd = { live: boolean; apart: readonly string[]; headTree: string; staged: readonly string[] };

/** Adds every file to the index. */
const addAll = async (context: GitContext, adding: Adding, how: HowToAdd) => {
  const { live, apart: left, headTree, staged } = how;
  const special = await findSpecial(context, adding, left);
  const { nested, inner, large, submodules, hasRules } = special;
  // Submodules too: git would run `git status` there, by the configuration that it finds.
  const apart = [...nested, ...large];
  const said = await add(context, adding, [...apart, ...left]);
  if (!live && said.includes("Permission denied")) {
    await openTree(adding.path);
    return addAll(context, adding, { ...how, live: true });
  }
  if (special.hasRuntime) await withoutRuntime(context, adding, headTree);
  const beside = { headTree, base: adding.baseSha ?? emptyTree, staged, large };
  const none = { restored: [], pointed: new Map<string, string>() };
  const { restored, pointed } = hasRules ? await restoreUntouched(context, adding, beside) : none;
  await stageEntries(context, adding, await movedIn(adding, { nested, submodules }));
  const kept = large.flatMap((path) =>
    pointed.has(path) ? [] : `file beyond SERVICE_MAX_REPO_BYTES or 1 GiB of new files: ${shownPath(path)}`,
  );
  const known = await withInner(context, adding, { submodules, inner });
  for (const path of [...nested, ...inner]) {
    const commit = known.get(path);
    if (commit === undefined) kept.push(`nested repository at ${shownPath(path)}`);
    else if (await hasOwnWork(context, adding, { path, commit }))
      kept.push(`submodule at ${shownPath(path)}`);
  }
  const refused = said === "" ? [] : await leftBehind(context, adding);
  const others = refused.filter((path) => !apart.includes(path) && !isApart(path, left));
  return { kept: [...kept, ...others.map((path) => `git does not take ${shownPath(path)}`)], restored };
};

/** Removes files of the agent's CLI that `.gitignore` lets in: new ones, and those that neither base nor remote has. */
const withoutRuntime = async (context: GitContext, adding: Adding, headTree: string): Promise<void> => {
  const plain = runtimeFiles.map((path) => `:(glob)${path.replace(/\/$/, "")}`);
  const under = ["--", ...plain, ...plain.map((path) => `${path}/**`)];
  const args = ["diff-index", "--cached", "--name-only", "--no-renames", "--diff-filter=A", "-z"];
  const added = async (commit: string): Promise<Set<string>> => {
    const { stdout } = await runGit(context, adding, [...args, commit, ...under], { encoding: "latin1" });
    return new Set(stdout.split("\0").filter(Boolean));
  };
  let own = await added(adding.baseSha ?? emptyTree);
  const names = [adding.baseRef, adding.branch].map((name) => `${remoteBranches}${name}`);
  const there = own.size === 0 ? [] : (await readRefs(adding.cacheDir, names)).values();
  for (const commit of there) own = own.intersection(await added(commit));
  await stageEntries(context, adding, [...own.union(await added(headTree))].map(removed));
};

const removed = (path: string): string => `0 ${"0".repeat(40)}\t${path}`;

/** Adds all but some paths. Resolves to what git says about others that it does not take. */
const add = async (context: GitContext, adding: Adding, without: string[]): Promise<string> => {
  const input = pathBytes([".", ...without.map((path) => `:(exclude,literal)${path}`)].join("\0"));
  const options = ["--all", "--ignore-errors", "--no-warn-embedded-repo"];
  const args = ["add", ...options, "--pathspec-from-file=-", "--pathspec-file-nul"];
  const added = await unlessRefused(runGit(context, adding, args, { input }), (error) => {
    // Exit code 1: git left out a file that it could not read, and added all others.
    if (error.exitCode !== 1) throw error;
    return { stderr: error.said };
  });
  return added.stderr;
};

/** Submodules that have another commit checked out than the index says, as entries of it. */
const movedIn = async (
  { path: root }: Adding,
  { nested, submodules }: Pick<Special, "nested" | "submodules">,
): Promise<string[]> => {
  const entries = nested.map(async (path) => {
    const commit = submodules.get(path);
    const head = commit === undefined ? null : await headOf(root, path);
    return head === null || head === commit ? [] : [`160000 ${head}\t${path}`];
  });
  return (await Promise.all(entries)).flat();
};

/** The commits of other repositories in the index, by path. Paths are bytes, one character each. */
const submodulesIn = async (context: GitContext, adding: Adding): Promise<Map<string, string>> => {
  const entries = await listFiles(context, adding, "--stage");
  const found = entries.map((entry) => /^160000 ([0-9a-f]{40}) \d\t(.+)$/s.exec(entry) ?? []);
  return new Map(found.flatMap(([, id = "", path = ""]) => (staysInside(path) ? [[path, id] as const] : [])));
};

/** What git left out when it added everything: names that it refuses, files and directories that it cannot read. */
const leftBehind = async (context: GitContext, adding: Adding): Promise<string[]> => {
  const options = ["--exclude-standard", "--others", "--modified", "--directory"];
  const named = await listFiles(context, adding, ...options);
  const paths = [...new Set(named.map((path) => path.replace(/\/$/, "")))].filter(staysInside);
  const absent = await absentIn(adding.path, paths);
  return paths.filter((path) => !absent.includes(path));
};

/** `hasRules`: there are attributes, by which git may write and read files otherwise than they are. */
type Special = Record<"nested" | "inner" | "large", string[]> & {
  submodules: Map<string, string>;
  hasRules: boolean;
  hasRuntime: boolean;
};

/** Bytes that one save takes of new and changed files in all. */
const mostAdded = 2 ** 30;

/** Smaller files are not added up, bytes. */
const fewBytes = 4096;

/**
 * What git does not ignore and cannot take: repositories, and files beyond the most that one save takes, which may hold nothing
 * and yet take hours to read. `inner`: repositories in submodules, where git takes nothing. Paths are bytes.
 */
const findSpecial = async (context: GitContext, adding: Adding, left: readonly string[]) => {
  const most = Math.min(context.settings.maxRepoBytes, mostAdded);
  const some = `+${Math.min(fewBytes, most)}c`;
  const wanted = [
    [".git", ...left].flatMap((path) => ["-path", `./${path}`, "-prune", "-o"]),
    ["-name", ".git", "-prune", "-printf", "0\\t%P\\0", "-o"],
    ["(", "-name", ".gitattributes", "-o", "-name", ".claude", ")", "-printf", "0\\t%P\\0", "-o"],
    ["-type", "f", "-size", some, "-printf", "%s\\t%P\\0"],
  ];
  const stdout = await find(context, adding.path, wanted.flat());
  const found = Array.from(stdout.matchAll(/(\d+)\t([^\0]+)\0/g), ([, size, path = ""]) => ({
    path,
    size: Number(size),
  }));
  const repositories = repositoriesIn(found.map(({ path }) => path));
  const submodules =
    repositories.length === 0 ? new Map<string, string>() : await submodulesIn(context, adding);
  const isInner = (path: string): boolean => submodules.keys().some((owner) => path.startsWith(`${owner}/`));
  const inner = repositories.filter(isInner);
  const outer = repositories.filter((path) => !isInner(path));
  const ignored = new Map(await ignoredOf(context, adding, outer));
  const nested = outer.filter((path) => !ignored.has(path));
  const files = found.filter(({ path }) => !path.endsWith("/.git") && !isInner(path));
  const large = await beyond(context, adding, { files, most });
  const has = (name: string): boolean => found.some(({ path }) => basename(path) === name);
  const [hasRules, hasRuntime] = [has(".gitattributes"), has(".claude")];
  return { nested, inner, large, submodules, hasRules, hasRuntime };
};

/** The largest of the new and changed files, so that the others have at most so many bytes in all. Paths are bytes. */
const beyond = async (
  context: GitContext,
  adding: Adding,
  { files, most }: { files: readonly { path: string; size: number }[]; most: number },
): Promise<string[]> => {
  const sum = (sizes: number, { size }: { size: number }): number => sizes + size;
  if (files.reduce(sum, 0) <= most) return [];
  const options = ["--exclude-standard", "--others", "--modified"];
  const changed = new Set(await listFiles(context, adding, ...options));
  const smallestFirst = files
    .filter(({ path }) => changed.has(path))
    .toSorted((one, other) => one.size - other.size);
  let bytes = 0;
  return smallestFirst.flatMap(({ path, size }) => ((bytes += size) > most ? [path] : []));
};

/**
 * Commits of the agent's clone that neither the cached clone (the agent may have made refs of any kind) nor the base has; newest
 * first, and no ancestor of another. `pushed`: what the service pushed, if that counts as saved: not in a job that then fails.
 */
export const unsavedCommits = async (
  context: GitContext,
  { cacheDir, baseSha, ownDir }: Worktree,
  { agent, pushed = null }: { agent: AgentClone; pushed?: string | null },
  where: Where = ownDir,
): Promise<string[]> => {
  const remote = await readRefs(cacheDir, remoteRefs);
  const known = new Set([baseSha, pushed, ...remote.values()]);
  const without = [...known].flatMap((commit) => (commit === null ? [] : [`^${commit}`]));
  const input = [...agent.tips, ...without, ""].join("\n");
  const args = ["rev-list", "--parents", "--ignore-missing", "--stdin"];
  const { stdout } = await runGit(context, where, args, { input });
  const lines = stdout.split("\n").filter((line) => line !== "");
  const followed = new Set(lines.flatMap((line) => line.split(" ").slice(1)));
  return lines.map((line) => line.slice(0, 40)).filter((commit) => !followed.has(commit));
};
