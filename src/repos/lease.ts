import { createHash } from "node:crypto";
import { appendFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { branchRef, readRefs, remoteRefs } from "./clone.ts";
import { runGit, type GitContext } from "./git-context.ts";
import { textOf } from "./git-directory.ts";
import { remoteBranches } from "./ref.ts";
import type { Worktree } from "./repos.ts";

/*
 * A push gives the branch at the remote the worktree's commits, also when they were rewritten. git holds a lease on the tip
 * that was looked at: the push is refused when the branch has moved since.
 *
 * | a commit that the push leaves behind                                    |                     |
 * |-------------------------------------------------------------------------|---------------------|
 * | is one that the service pushed, or is on another branch of the remote   | goes                |
 * | has the author and the author date of one that is pushed (a rebase)     | goes                |
 * | changes nothing itself (a merge without conflicts, an empty commit)     | goes                |
 * | is any other                                                            | the push is refused |
 */

/** The branch at the remote, as last fetched; null: it has none. */
export const tipAtRemote = async ({ cacheDir, branch }: Worktree): Promise<string | null> =>
  (await readRefs(cacheDir, remoteRefs)).get(`${remoteBranches}${branch}`) ?? null;

/**
 * Compares a commit of the worktree with what its branch has at the remote. `lost`: commits of others that a push would leave
 * behind, for people. `own`: ids of commits that only the worktree has.
 */
export const compareWithRemote = async (
  context: GitContext,
  worktree: Worktree,
  { tip, theirs }: { tip: string; theirs: string | null },
): Promise<{ lost: string[]; own: string[] }> => {
  const { cacheDir, baseSha } = worktree;
  const others = new Map(await readRefs(cacheDir, remoteRefs));
  others.delete(`${remoteBranches}${worktree.branch}`);
  const without = Array.from(new Set([baseSha ?? [], ...others.values()].flat()), (id) => `^${id}`);
  const range = theirs === null ? tip : `${theirs}...${tip}`;
  const { left, right } = await listCommits(context, worktree, [range, ...without]);
  const pushed = left.length === 0 ? null : new Set((await textOf(pushedFile(worktree))).split("\n"));
  const foreign = left.filter(({ id }) => pushed?.has(id) === false);
  const authors = new Set(foreign.map(({ author }) => author));
  const own = right.filter(({ author }) => !authors.has(author)).map(({ id }) => id);
  if (foreign.length === 0) return { lost: [], own };
  // A copy may have come with another branch.
  const all = await listCommits(context, worktree, [tip, `^${theirs}`]);
  const copied = new Set(all.right.map(({ author }) => author));
  const missing = foreign.filter(({ author }) => !copied.has(author));
  // No path follows a commit without changes of its own, such as the merge of a host that updates a branch.
  const input = missing.map(({ id }) => `${id}\n`).join("");
  const show = ["diff-tree", "--stdin", "--root", "-r", "-c", "--name-only"];
  const shown = (await runGit(context, worktree.ownDir, show, { input })).stdout.split("\n");
  const isPath = (line = ""): boolean => line !== "" && missing.every(({ id }) => id !== line);
  const changing = missing.filter(({ id }) => shown.includes(id) && isPath(shown[shown.indexOf(id) + 1]));
  return { lost: changing.map(({ label }) => label), own };
};

/** `left`: only the first side of a symmetric difference has them. */
const listCommits = async (context: GitContext, { ownDir }: Worktree, ranges: readonly string[]) => {
  const format = "--format=%m%H%x00%an <%ae> %at%x00%an%x00%s";
  const input = [...ranges, ""].join("\n");
  const { stdout } = await runGit(context, ownDir, ["log", "--stdin", "--left-right", format], { input });
  const commits = stdout.split("\n").flatMap((line) => {
    const [id = "", author = "", name = "", subject = ""] = line.split("\0");
    const label = `${id.slice(1, 8)} "${cut(subject)}" by ${cut(name)}`;
    return id === "" ? [] : [{ isLeft: id.startsWith("<"), id: id.slice(1), author, label }];
  });
  return { left: commits.filter(({ isLeft }) => isLeft), right: commits.filter(({ isLeft }) => !isLeft) };
};

const cut = (text: string): string => text.replaceAll(/\p{Cc}/gu, " ").slice(0, 60);

/** Directory with the ids of the commits that the service has pushed, in a file for each branch. */
export const pushedDirectory = (cacheDir: string): string => join(dirname(cacheDir), "pushed");

const pushedFile = (worktree: Worktree): string =>
  join(pushedDirectory(worktree.cacheDir), createHash("sha256").update(branchRef(worktree)).digest("hex"));

/** Notes commits as the service's own before a push, because of crashes; resolves to what takes it back: they may be others'. */
export const noteOwn = async (worktree: Worktree, ids: readonly string[]): Promise<() => Promise<void>> => {
  const file = pushedFile(worktree);
  const before = await textOf(file);
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  await appendFile(file, ids.map((id) => `${id}\n`).join(""));
  return () => writeFileAtomic(file, before, 0o644);
};
