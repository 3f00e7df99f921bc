import { commitOf } from "./base.ts";
import { commitSnapshot, hasNews, isAncestor, writeCommit } from "./commit.ts";
import { asRepoError } from "./failure.ts";
import { isWorktreeId } from "./marker.ts";
import { salvageRef, type Worktree } from "./repos.ts";
import { runGit, type Room } from "./room.ts";
import { takeSnapshot } from "./snapshot.ts";
import { updateRef } from "./update-ref.ts";
import { worktreeVariables } from "./worktree-links.ts";

type SalvageRequest = { worktree: Worktree; jobId: string; signal: AbortSignal };

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

const save = async (room: Room, { worktree, jobId, signal }: SalvageRequest): Promise<string | null> => {
  const ref = salvageRef(jobId);
  const message = `Unfinished work of job ${jobId}`;
  const state = await takeSnapshot(room, { worktree, signal, asItIs: true });
  const commit = await commitSnapshot(room, { worktree, state, message, signal });
  const base = worktree.baseSha === null ? [] : [worktree.baseSha];
  if (commit === null || !(await hasNews(room, { worktree, commit, besides: base, signal }))) return null;
  const before = await commitOf(room, { gitDir: worktree.commonDir, name: ref, signal });
  if (before === null || (await isAncestor(room, { worktree, ancestor: before, of: commit, signal }))) {
    await updateRef(room, { worktree, ref, to: commit, signal });
  } else if (!(await holds(room, { worktree, commit: before, tree: state.tree, head: state.head, signal }))) {
    const parents = [commit, before];
    const both = await writeCommit(room, { worktree, tree: state.tree, parents, message, signal });
    await updateRef(room, { worktree, ref, to: both, signal });
  }
  return ref;
};

/** Whether an earlier salvage has it all: then a second call adds nothing. */
const holds = async (
  room: Room,
  {
    worktree,
    commit,
    tree,
    head,
    signal,
  }: { worktree: Worktree; commit: string; tree: string; head: string | null; signal: AbortSignal },
): Promise<boolean> => {
  const call = { variables: worktreeVariables(worktree), signal };
  const { stdout } = await runGit(room, ["rev-parse", "--verify", `${commit}^{tree}`], call);
  return (
    stdout.trim() === tree &&
    (head === null || (await isAncestor(room, { worktree, ancestor: head, of: commit, signal })))
  );
};
