import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { withoutWaiting } from "../lib/without-waiting.ts";
import { commitOf } from "./base.ts";
import { asRepoError } from "./failure.ts";
import { leaveOutEscapingLinks } from "./checkout-care.ts";
import { keepIndex, restoreIndex } from "./index-copy.ts";
import { keepRepositories, restoreRepositories } from "./kept-repositories.ts";
import { readMarker } from "./marker.ts";
import { ignoredPaths } from "./passed-over.ts";
import type { Snapshot, Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { takeSnapshot } from "./snapshot.ts";
import { updateRef } from "./update-ref.ts";
import { hasDirectory, reclaim, worktreeVariables } from "./worktree-links.ts";

type Request = { worktree: Worktree; signal: AbortSignal };

/** See the port. */
export const snapshot = async (room: Room, { worktree, signal }: Request): Promise<Snapshot> => {
  try {
    let ignored: string[] = [];
    const use = async (index: string): Promise<void> => {
      if (!(await hasDirectory(worktree))) return;
      const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: index };
      ignored = await ignoredPaths(room, { root: worktree.path, variables, signal });
    };
    const { head, tip, tree, repositories } = await takeSnapshot(room, {
      worktree,
      signal,
      whole: true,
      use,
    });
    const kept = await keepRepositories(room, { worktree, inside: repositories, signal });
    const text = await readFile(join(worktree.gitDir, "HEAD"), {
      encoding: "utf8",
      flag: withoutWaiting.read,
    });
    const headRef = /^ref: (\S+)\n?$/.exec(text)?.[1] ?? null;
    const index = await keepIndex(worktree);
    return { head, headRef, tip, tree, ignored, repositories: kept, index };
  } catch (error) {
    const what = `take stock of the worktree ${worktree.path}`;
    throw asRepoError(error, { reason: "worktree_failed", what, signal });
  }
};

/** Files that an agent hid behind a new `.gitignore` come to light when that is gone, those behind these one round later. */
const rounds = 10;

/** Puts files, branch, HEAD and index of a worktree as they were. Files that did not change are not touched. */
export const goBack = async (room: Room, request: Request & { since: Snapshot }): Promise<void> => {
  const { worktree, since, signal } = request;
  await mkdir(worktree.path, { recursive: true });
  await reclaim(room, worktree);
  await restoreBranches(room, request);
  for (let round = 1; round <= rounds; round += 1) {
    const { tree, repositories } = await takeSnapshot(room, {
      worktree,
      signal,
      whole: true,
      ignored: since.ignored,
      use: (index) => restoreFiles(room, request, index),
    });
    await restoreIndex(worktree, since.index);
    if (tree !== since.tree) continue;
    return restoreRepositories(room, { worktree, kept: since.repositories, inside: repositories, signal });
  }
  throw new Error("it still differs from what it was");
};

/** `index` tells what is in the directory: what is not in the tree is removed, what differs written. */
const restoreFiles = async (
  room: Room,
  { worktree, since, signal }: Request & { since: Snapshot },
  index: string,
): Promise<void> => {
  const variables = { ...worktreeVariables(worktree), GIT_INDEX_FILE: index };
  await runGit(room, ["read-tree", "--reset", "-u", since.tree], { variables, signal });
  const links = (await readMarker(room, worktree.worktreeId))?.leftOut ?? [];
  await leaveOutEscapingLinks(room, { worktree, links, index, signal });
};

const restoreBranches = async (
  room: Room,
  { worktree, since, signal }: Request & { since: Snapshot },
): Promise<void> => {
  const { branch, commonDir: gitDir } = worktree;
  const { head, headRef, tip } = since;
  const own = `refs/heads/${branch}`;
  const call = { variables: worktreeVariables(worktree), signal };
  await updateRef(room, { worktree, ref: own, to: tip, signal });
  if (headRef !== null && headRef !== own) {
    const now = await commitOf(room, { gitDir, name: headRef, signal });
    // The branch of another job may have moved on; it is not set back.
    if (now !== head && headRef.startsWith("refs/heads/service/"))
      return detach(room, { worktree, head, signal });
    if (now !== head) await updateRef(room, { worktree, ref: headRef, to: head, signal });
  }
  if (headRef === null) return detach(room, { worktree, head, signal });
  await runGit(room, ["symbolic-ref", "HEAD", headRef], call);
};

const detach = async (
  room: Room,
  { worktree, head, signal }: Request & { head: string | null },
): Promise<void> => {
  if (head === null) return;
  const call = { variables: worktreeVariables(worktree), signal };
  await runGit(room, ["update-ref", "--no-deref", "HEAD", head], call);
};
