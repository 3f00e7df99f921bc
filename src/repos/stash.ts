import { lstat, readFile } from "node:fs/promises";
import { join } from "node:path";
import { GitError } from "../lib/git.ts";
import { withoutWaiting } from "../lib/without-waiting.ts";
import type { Worktree } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";

type Stash = { name: string; commit: string; isOwn: boolean };

/**
 * The entries of the stash, which all worktrees of a clone share, that are this worktree's: made on its branch (`isOwn`),
 * or, on no job's branch, on a commit that it had checked out: then another worktree may have made it.
 */
export const stashesOf = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<Stash[]> => {
  const { commonDir, branch } = worktree;
  if ((await lstat(join(commonDir, "logs/refs/stash")).catch(() => null)) === null) return [];
  const args = ["log", "--walk-reflogs", "--format=%gd%x00%H%x00%P%x00%gs", "refs/stash", "--"];
  const call = { variables: gitDirVariables(commonDir), signal };
  const { stdout } = await runGit(room, args, call).catch((error: unknown) => {
    // The last entry was taken away meanwhile.
    if (error instanceof GitError && /bad revision/.test(error.said)) return { stdout: "" };
    throw error;
  });
  const log = await headLog(worktree);
  return stdout.split("\n").flatMap((line) => {
    const [name = "", commit = "", parents = "", subject = ""] = line.split("\0");
    const on = /^(?:WIP on|On) (.+?): /.exec(subject)?.[1] ?? "";
    const isOwn = on === branch;
    const head = parents.split(" ")[0] ?? "";
    const isPerhaps = head !== "" && !on.startsWith("service/") && log.includes(head);
    return isOwn || isPerhaps ? [{ name, commit, isOwn }] : [];
  });
};

/** Takes the worktree's own entries out of the stash, where the next job would find them. To be called once they are saved. */
export const dropStashes = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<void> => {
  const { commonDir } = worktree;
  const own = (await stashesOf(room, worktree, signal)).filter(({ isOwn }) => isOwn);
  const call = { variables: { GIT_DIR: commonDir, GIT_WORK_TREE: commonDir }, signal };
  // The last first: the others keep their numbers.
  for (const { name, commit } of own.toReversed()) {
    const { stdout } = await runGit(room, ["stash", "drop", name], call);
    const dropped = /\(([0-9a-f]{40})\)/.exec(stdout)?.[1] ?? commit;
    if (dropped === commit) continue;
    // An agent at work has moved the numbers meanwhile: what was not ours goes back.
    const { stdout: subject } = await runGit(room, ["log", "-1", "--format=%s", dropped], call);
    await runGit(room, ["stash", "store", "--message", subject.trim(), dropped], call);
  }
};

/** What the agent used that all jobs of the repository share, a sentence each. */
export const sharedBy = async (room: Room, worktree: Worktree, signal: AbortSignal): Promise<string[]> => {
  const { commonDir, branch, repoKey } = worktree;
  if (repoKey === null) return [];
  const log = await headLog(worktree);
  const visited = new Set(
    [...log.matchAll(/\tcheckout: moving from \S+ to (\S+)$/gm)].map(([, to]) => to ?? ""),
  );
  visited.delete(branch);
  if (visited.size === 0) return [];
  const args = ["for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads"];
  const { stdout } = await runGit(room, args, { variables: gitDirVariables(commonDir), signal });
  const used = stdout.split("\n").filter((name) => visited.has(name));
  if (used.length === 0) return [];
  const names = used.slice(0, 10).join(", ");
  return [`Local branches are shared by all jobs of the repository; the agent used ${names}.`];
};

/** git's log of what the worktree had checked out, which is its own. */
const headLog = ({ gitDir }: Worktree): Promise<string> =>
  readFile(join(gitDir, "logs/HEAD"), { encoding: "utf8", flag: withoutWaiting.read }).catch(() => "");
