import { GitError } from "../lib/git.ts";
import { commitOf } from "./base.ts";
import { commitSnapshot, hasNews, isAncestor, writeCommit } from "./commit.ts";
import { asRepoError } from "./failure.ts";
import { isWorktreeId, readMarker } from "./marker.ts";
import { headAt, lostBranch } from "./ownership.ts";
import { salvageRef, type Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { withSalvagedFiles } from "./salvaged-files.ts";
import { takeSnapshot, type Contents } from "./snapshot.ts";
import { refsOfItsOwn, stagedOnly } from "./staged.ts";
import { dropStashes } from "./stash.ts";
import { updateRef } from "./update-ref.ts";
import { worktreeVariables } from "./worktree-links.ts";

type SalvageRequest = {
  worktree: Worktree;
  jobId: string;
  signal: AbortSignal;
  /** Under a ref of this instance's own. */ stray?: boolean;
};

/** See the port. What was salvaged for the job before stays reachable from the new commit. */
export const salvage = async (room: Room, request: SalvageRequest): Promise<string | null> => {
  const { worktree, signal } = request;
  try {
    if (!isWorktreeId(request.jobId)) throw new Error(`"${request.jobId}" is no job id`);
    return await save(room, request);
  } catch (error) {
    throw asRepoError(error, {
      reason: "worktree_failed",
      what: `save what is in the worktree ${worktree.path}`,
      signal,
    });
  }
};

const save = async (
  room: Room,
  { worktree: given, jobId, signal, stray = false }: SalvageRequest,
): Promise<string | null> => {
  const { worktree, isTaken } = await asLeft(room, given);
  const ref = salvageRef(stray || isTaken ? `${jobId}-${nameOf(room)}` : jobId);
  const message = `Unfinished work of job ${jobId}`;
  const found = await takeSnapshot(room, { worktree, signal, asItIs: true, whole: true });
  const state = { ...found, tree: await withSalvagedFiles(room, { worktree, state: found, signal }) };
  const aside = await commitsAside(room, { worktree, state: found, message, signal });
  const own = await commitSnapshot(room, { worktree, state, message, signal });
  const parents = [...(own === null ? [] : [own]), ...aside.commits];
  const commit =
    aside.commits.length === 0
      ? own
      : await writeCommit(room, { worktree, tree: state.tree, parents, message, signal });
  const base = worktree.baseSha === null ? [] : [worktree.baseSha];
  if (commit === null || !(await hasNews(room, { worktree: given, commit, besides: base, signal })))
    return null;
  const add = async (): Promise<void> => {
    const before = await commitOf(room, { gitDir: worktree.commonDir, name: ref, signal });
    if (before === null || (await isAncestor(room, { worktree, ancestor: before, of: commit, signal }))) {
      await updateRef(room, { worktree, ref, to: commit, from: before, signal });
    } else if (!(await holds(room, { worktree, commit: before, state, staged: aside.staged, signal }))) {
      const together = { worktree, tree: state.tree, parents: [commit, before], message, signal };
      const both = await writeCommit(room, together);
      await updateRef(room, { worktree, ref, to: both, from: before, signal });
    }
  };
  // Another instance may save under the same name: then what it saved is kept too.
  await add().catch((error: unknown) => {
    if (!(error instanceof GitError) || !/but expected|already exists/.test(error.said)) throw error;
    return add();
  });
  if (given.repoKey !== null) await dropStashes(room, given, signal);
  return ref;
};

/**
 * A worktree whose branch another instance has now is saved as it was left: by what it had checked out, and by its base
 * where nothing tells that.
 */
const asLeft = async (room: Room, worktree: Worktree): Promise<{ worktree: Worktree; isTaken: boolean }> => {
  const marker = worktree.repoKey === null ? null : await readMarker(room, worktree.worktreeId);
  if (marker === null || marker.takenBy === null) return { worktree, isTaken: false };
  const { gitDir } = marker.worktree;
  await headAt(gitDir, worktree.baseSha);
  return { worktree: { ...worktree, gitDir, branch: lostBranch(worktree.worktreeId) }, isTaken: true };
};

/** The instance, as part of a ref. */
const nameOf = ({ settings }: Room): string =>
  settings.podName.replaceAll(/[^A-Za-z0-9_-]+/g, "-").slice(0, 60);

/** Commits that are on no branch, and one for what is only staged, as `git stash` makes it. */
const commitsAside = async (
  room: Room,
  saving: { worktree: Worktree; state: Contents; message: string; signal: AbortSignal },
): Promise<{ staged: string | null; commits: string[] }> => {
  const { worktree, state, message, signal } = saving;
  const tree = await stagedOnly(room, { worktree, state, signal });
  const parents = state.head === null ? [] : [state.head];
  const staged =
    tree === null
      ? []
      : [await writeCommit(room, { worktree, tree, parents, message: `${message}: staged`, signal })];
  return { staged: tree, commits: [...staged, ...(await refsOfItsOwn(room, worktree, signal))] };
};

/** Whether an earlier salvage has it all: then a second call adds nothing. */
const holds = async (
  room: Room,
  {
    worktree,
    commit,
    state: { tree, head },
    staged,
    signal,
  }: { worktree: Worktree; commit: string; state: Contents; staged: string | null; signal: AbortSignal },
): Promise<boolean> => {
  const call = { variables: worktreeVariables(worktree), signal };
  const { stdout } = await runGit(room, ["log", "--max-count=20", "--format=%T", commit], call);
  const trees = stdout.trim().split("\n");
  if (trees[0] !== tree || (staged !== null && !trees.includes(staged))) return false;
  const besides = [...(head === null ? [] : [head]), ...(await refsOfItsOwn(room, worktree, signal))];
  for (const ancestor of besides)
    if (!(await isAncestor(room, { worktree, ancestor, of: commit, signal }))) return false;
  return true;
};
