import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { withoutWaiting } from "../lib/without-waiting.ts";
import { networkAccess } from "./network.ts";
import { isRefName } from "./ref.ts";
import { RepoError, type CachedRepo } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";

type BaseRequest = { repo: CachedRepo; baseRef: string; signal: AbortSignal };

/** `baseSha` null: the repository has no commit yet. */
type Base = { baseRef: string; baseSha: string | null };

/**
 * The commit that a branch or, failing that, a tag of the remote stands at. Empty: that of `main` or, failing that, of the
 * remote's default branch.
 * @throws RepoError `worktree_failed` that names what there is
 */
export const resolveBase = async (room: Room, request: BaseRequest): Promise<Base> => {
  const { repo, signal } = request;
  const baseRef = request.baseRef || "main";
  if (!isRefName(baseRef))
    throw new RepoError("worktree_failed", `"${baseRef}" is not the name of a branch or tag.`);
  const baseSha = await commitAt(room, { ...request, baseRef });
  if (baseSha !== null) return { baseRef, baseSha };
  const branches = await recentBranches(room, { gitDir: repo.gitDir, signal });
  if (branches.length === 0) return { baseRef, baseSha };
  const fallback = request.baseRef === "" ? await defaultBranch(room, request) : null;
  if (fallback !== null) {
    const tip = await commitAt(room, { ...request, baseRef: fallback });
    if (tip !== null) return { baseRef: fallback, baseSha: tip };
  }
  const known = branches.slice(0, 10).join(", ");
  const more = branches.length > 10 ? ", …" : "";
  const message = `The repository ${repo.url} has no branch or tag "${baseRef}". It has: ${known}${more}. Set base_ref to one of them.`;
  throw new RepoError("worktree_failed", message);
};

/** The branch that the remote's HEAD names, or null. A fetch does not tell it. */
const defaultBranch = async (room: Room, { repo, signal }: BaseRequest): Promise<string | null> => {
  const { stdout } = await runGit(room, ["ls-remote", "--quiet", "--symref", "--", repo.url, "HEAD"], {
    ...(await networkAccess(room, repo.url, signal)),
    signal,
  });
  return /^ref: refs\/heads\/(\S+)\tHEAD$/m.exec(stdout)?.[1] ?? null;
};

/** The commit of a branch or, failing that, a tag that was fetched; null: there is none of this name. */
const commitAt = async (room: Room, { repo, baseRef, signal }: BaseRequest): Promise<string | null> => {
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
  return null;
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
