import { randomUUID } from "node:crypto";
import { lstat, rm } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { copyIndex } from "./index-copy.ts";
import { changedPaths } from "./inspect.ts";
import type { Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { emptyTree, type Contents } from "./snapshot.ts";
import { stashesOf } from "./stash.ts";
import { worktreeVariables } from "./worktree-links.ts";

type Staged = { worktree: Worktree; state: Contents; signal: AbortSignal };

/** The tree that is staged, when it has something that neither the files nor the head have any more; else null. */
export const stagedOnly = async (room: Room, { worktree, state, signal }: Staged): Promise<string | null> => {
  const staged = await stagedTree(room, worktree, signal);
  if (staged === null || [emptyTree, state.headTree, state.tree].includes(staged)) return null;
  const ofHead = new Set(await changedPaths(room, { worktree, from: state.headTree, to: staged, signal }));
  const ofFiles = await changedPaths(room, { worktree, from: staged, to: state.tree, signal });
  return ofFiles.some((path) => ofHead.has(path)) ? staged : null;
};

/** Null: there is no index, or nobody could read it. */
const stagedTree = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<string | null> => {
  const index = join(worktree.gitDir, `service-${randomUUID()}.index`);
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: index };
  const writeTree = async (): Promise<string> =>
    (await runGit(room, ["write-tree"], { variables, signal })).stdout.trim();
  try {
    if (!(await copyIndex(worktree, index))) return null;
    return await writeTree().catch(async (error: unknown) => {
      if (!(error instanceof GitError)) throw error;
      // In the middle of a merge: its sides are commits, what else was staged is not.
      await settle(room, { variables, signal });
      return writeTree();
    });
  } catch (error) {
    if (!(error instanceof GitError)) throw error;
    return null;
  } finally {
    for (const file of [index, `${index}.lock`]) await rm(file, { force: true });
  }
};

/** Leaves only what is staged without a conflict. */
const settle = async (
  room: Room,
  call: { variables: Record<string, string>; signal: AbortSignal },
): Promise<void> => {
  const limit = { maxOutputBytes: 256 * 1024 * 1024, encoding: "latin1" as const };
  const { stdout } = await runGit(room, ["ls-files", "--stage", "-z"], { ...call, ...limit });
  const entries = stdout.split("\0").filter((entry) => /^\d+ [0-9a-f]+ 0\t/.test(entry));
  const input = Buffer.from(entries.map((entry) => `${entry}\0`).join(""), "latin1");
  await runGit(room, ["read-tree", "--empty"], call);
  await runGit(room, ["update-index", "-z", "--index-info"], { ...call, input });
};

/** Commits of the refs that belong to this worktree alone (`refs/worktree/…`) and go with it, and of its stashes. */
export const refsOfItsOwn = async (
  room: Room,
  worktree: Worktree,
  signal: AbortSignal,
): Promise<string[]> => {
  const stashes = (await stashesOf(room, worktree, signal)).map(({ commit }) => commit);
  if ((await lstat(join(worktree.gitDir, "refs", "worktree")).catch(() => null)) === null) return stashes;
  const args = ["for-each-ref", "--format=%(objecttype) %(objectname)", "refs/worktree"];
  const { stdout } = await runGit(room, args, { variables: worktreeVariables(worktree), signal });
  return [...stashes, ...stdout.split("\n").flatMap((line) => /^commit ([0-9a-f]+)$/.exec(line)?.[1] ?? [])];
};
