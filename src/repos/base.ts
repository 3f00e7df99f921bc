import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { withoutWaiting } from "../lib/without-waiting.ts";
import { isRefName } from "./ref.ts";
import { RepoError, type CachedRepo } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";

type BaseRequest = { repo: CachedRepo; baseRef: string; signal: AbortSignal };

/**
 * The commit that a branch or, failing that, a tag of the remote stands at. Null: the repository has no commit yet.
 * @throws RepoError `worktree_failed` that names what there is
 */
export const resolveBase = async (
  room: Room,
  { repo, baseRef, signal }: BaseRequest,
): Promise<string | null> => {
  if (!isRefName(baseRef))
    throw new RepoError("worktree_failed", `"${baseRef}" is not the name of a branch or tag.`);
  // After a fetch the branch most often is a file of its own: reading it saves a process per job.
  const loose = await readFile(join(repo.gitDir, "refs/remotes/origin", baseRef), {
    encoding: "latin1",
    flag: withoutWaiting.read,
  }).catch(() => "");
  if (/^[0-9a-f]{40}\n$/.test(loose)) return loose.trim();
  for (const kind of ["remotes/origin", "tags"]) {
    const sha = await commitOf(room, { gitDir: repo.gitDir, name: `refs/${kind}/${baseRef}`, signal });
    if (sha !== null) return sha;
  }
  const branches = await recentBranches(room, { gitDir: repo.gitDir, signal });
  if (branches.length === 0) return null;
  const known = branches.slice(0, 10).join(", ");
  const more = branches.length > 10 ? ", …" : "";
  const message = `The repository ${repo.url} has no branch or tag "${baseRef}". It has: ${known}${more}. Set base_ref to one of them.`;
  throw new RepoError("worktree_failed", message);
};

/** The commit that a name stands for, or null. */
export const commitOf = async (
  room: Room,
  { gitDir, name, signal }: { gitDir: string; name: string; signal: AbortSignal },
): Promise<string | null> => {
  const args = ["rev-parse", "--verify", "--quiet", "--end-of-options", `${name}^{commit}`];
  try {
    return (await runGit(room, args, { variables: gitDirVariables(gitDir), signal })).stdout.trim();
  } catch (error) {
    if (error instanceof GitError && error.exitCode === 1) return null;
    throw error;
  }
};

const recentBranches = async (
  room: Room,
  { gitDir, signal }: { gitDir: string; signal: AbortSignal },
): Promise<string[]> => {
  const args = [
    "for-each-ref",
    "--sort=-committerdate",
    "--count=11",
    "--format=%(refname:lstrip=3)",
    "refs/remotes/origin",
  ];
  const { stdout } = await runGit(room, args, { variables: gitDirVariables(gitDir), signal });
  return stdout.split("\n").filter((line) => line !== "");
};
