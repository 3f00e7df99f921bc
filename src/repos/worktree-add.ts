import { lstat, mkdir } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { GitError } from "../lib/git.ts";
import { resolveBase } from "./base.ts";
import { repair, restoreCache } from "./cache.ts";
import { checkoutWarnings, leaveOutEscapingLinks } from "./checkout-care.ts";
import { refuseWhatIsElsewhere } from "./elsewhere.ts";
import { asRepoError } from "./failure.ts";
import { isDamage } from "./heal.ts";
import { pastStaleLocks } from "./leftovers.ts";
import { announce, isWorktreeId, locate, readMarker, writeMarker, type ReadMarker } from "./marker.ts";
import { freeGitDir, isGitDirName, makeRoom, writeOwner, lockReason } from "./ownership.ts";
import { isRefName } from "./ref.ts";
import { withRepositoryLock } from "./repository-lock.ts";
import type { AddWorktree, CachedRepo, Worktree } from "./repos.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";
import { salvage } from "./salvage.ts";
import { addScratch } from "./scratch.ts";
import { specialEntries, type SpecialEntries } from "./tree.ts";
import { hasDirectory, reclaim, textOf, verify } from "./worktree-links.ts";
import { abandon, clearAway } from "./worktree-remove.ts";

/** See the port. @throws RepoError `worktree_failed` */
export const addWorktree = async (room: Room, request: AddWorktree): Promise<Worktree> => {
  const { repo, worktreeId, signal } = request;
  try {
    if (!isWorktreeId(worktreeId)) throw new Error(`"${worktreeId}" is no worktree id`);
    if (!isRefName(request.branch)) throw new Error(`"${request.branch}" is no branch name`);
    await mkdir(room.settings.worktreeRoot, { recursive: true, mode: 0o700 });
    if (repo === null) return await addScratch(room, request);
    const locked = { key: repo.key, url: repo.url, reason: "worktree_failed" as const, signal };
    const saved = await saveTaken(room, request);
    return await withRepositoryLock(room, locked, (held) =>
      addLocked(room, { ...request, ...held, repo }, saved),
    );
  } catch (error) {
    throw asRepoError(error, { reason: "worktree_failed", what: `make the worktree ${worktreeId}`, signal });
  }
};

type Locked = AddWorktree & { repo: CachedRepo; lockFd: number };

/** What we left of a worktree before another instance took it over is saved: it is made anew. Resolves to that one's name. */
const saveTaken = async (room: Room, { worktreeId, signal }: AddWorktree): Promise<string | null> => {
  const marker = await readMarker(room, worktreeId);
  if (marker === null || marker.takenBy === null) return null;
  if (marker.ready) await salvage(room, { worktree: marker.worktree, jobId: worktreeId, signal });
  return marker.takenBy;
};

const addLocked = async (room: Room, request: Locked, saved: string | null): Promise<Worktree> => {
  const { repo, worktreeId } = request;
  const existing = await existingOf(room, request, saved);
  if (existing?.takenBy === null && existing.ready && (await hasDirectory(existing.worktree))) {
    await reclaim(room, existing.worktree);
    return existing.worktree;
  }
  if (existing === null) {
    await refuseWhatIsElsewhere(room, { worktreeId, ...locate(room, worktreeId, repo.key) });
  }
  await restoreCache(room, repo);
  if (existing !== null) await clearAway(room, existing.worktree);
  try {
    return await make(room, request, existing);
  } catch (error) {
    if (!isDamage(error)) {
      // Why it failed is what the caller must hear; what is left is taken away by the next try at the latest.
      if (existing === null) await abandon(room, worktreeId).catch(() => undefined);
      throw error;
    }
    const half = await readMarker(room, worktreeId);
    if (half !== null) await clearAway(room, half.worktree);
    const mended = await repair(room, repo, request);
    const worktree = await make(room, request, existing);
    return { ...worktree, warnings: [mended, ...worktree.warnings] };
  }
};

/** What there is of the worktree here. `saved`: the instance that has taken it over, and before which it was saved. */
const existingOf = async (
  room: Room,
  { repo, worktreeId }: Locked,
  saved: string | null,
): Promise<ReadMarker | null> => {
  const existing = await readMarker(room, worktreeId);
  if (existing !== null && existing.worktree.repoKey !== repo.key) {
    throw new Error(`it exists already, of the repository ${existing.worktree.repoUrl}`);
  }
  const taken = existing?.takenBy ?? null;
  if (taken !== null && taken !== saved) throw new Error(`the instance ${taken} takes it over`);
  return existing;
};

const make = async (room: Room, request: Locked, existing: ReadMarker | null): Promise<Worktree> => {
  const { repo, worktreeId, branch, signal } = request;
  const place = locate(room, worktreeId, repo.key);
  const known = existing?.ready === true ? existing.worktree : null;
  const { baseRef, baseSha } = known ?? (await resolveBase(room, request));
  const worktree = {
    worktreeId,
    ...place,
    repoUrl: repo.url,
    repoKey: repo.key,
    branch,
    baseRef,
    baseSha,
    warnings: [],
  };
  if (await somethingAt(place.path)) throw new Error(`${place.path} exists and is not ours; remove it`);
  await announce(room, { ready: false, leftOut: [], worktree });
  await makeRoom(room, { commonDir: repo.gitDir, worktreeId, signal }, [existing?.instance ?? null]);
  const fresh = !(await somethingAt(join(repo.gitDir, "refs/heads", branch)));
  if (fresh && baseSha === null) return makeOrphan(room, worktree);
  const begun = fresh && baseSha !== null ? await begin(room, request, { worktree, baseSha }) : null;
  const special = begun ?? (await resume(room, request, worktree));
  if (begun === null && known === null) worktree.baseSha = await forkPoint(room, request, baseSha);
  worktree.gitDir = await madeGitDir(worktree);
  await writeOwner(worktree.gitDir, room.settings.podName);
  await verify(worktree);
  const leftOut = await leaveOutEscapingLinks(room, { worktree, links: special.links, signal });
  const warnings = [
    ...(await checkoutWarnings(worktree, special, leftOut)),
    ...(await branchInTheWay(repo.gitDir, branch)),
  ];
  await writeMarker(room, { ready: true, leftOut, worktree: { ...worktree, warnings } });
  return { ...worktree, warnings };
};

/** A sentence when the remote has a branch of the name of our branch's directory. */
const branchInTheWay = async (gitDir: string, branch: string): Promise<string[]> => {
  const above = dirname(branch);
  // A file: a directory has branches of ours.
  if ((await textOf(join(gitDir, "refs/remotes/origin", above))) === null) return [];
  return [
    `The remote has a branch "${above}", beside which git takes no branch "${branch}": it cannot be pushed until that one is renamed.`,
  ];
};

/** Checks a new branch out. Null: the branch exists already. */
const begin = async (
  room: Room,
  request: Locked,
  { worktree, baseSha }: { worktree: Worktree; baseSha: string },
): Promise<SpecialEntries | null> => {
  const { repo, branch, signal } = request;
  const special = await specialEntries(room, { repo, commit: baseSha, signal });
  try {
    await gitWorktreeAdd(room, request, ["-b", branch, "--", worktree.path, baseSha]);
    return special;
  } catch (error) {
    if (error instanceof GitError && /a branch named .* already exists/.test(error.said)) return null;
    throw error;
  }
};

/** Checks out a branch that an earlier worktree of this id has left. */
const resume = async (room: Room, request: Locked, { path }: Worktree): Promise<SpecialEntries> => {
  const { repo, branch, signal } = request;
  const special = await specialEntries(room, { repo, commit: `refs/heads/${branch}`, signal });
  await gitWorktreeAdd(room, request, ["--", path, branch]);
  return special;
};

const gitWorktreeAdd = (
  room: Room,
  { repo, lockFd, jobId, signal }: Locked,
  args: string[],
): Promise<unknown> =>
  pastStaleLocks(repo.gitDir, signal, () =>
    // Locked, so that `git worktree prune` or `git gc` run by an agent leaves it alone.
    runGit(
      room,
      [
        "worktree",
        "add",
        "--quiet",
        "--lock",
        "--reason",
        lockReason(room.settings.podName),
        ...(args[0] === "-b" ? ["--no-track"] : []),
        ...args,
      ],
      {
        variables: gitDirVariables(repo.gitDir),
        inheritFd: lockFd,
        jobId,
        signal,
      },
    ),
  );

/** The administrative directory that git has made: its name has a number when another instance's has the id. */
const madeGitDir = async ({ path, gitDir, worktreeId }: Worktree): Promise<string> => {
  const made = /^gitdir: (.+)\n$/.exec((await textOf(join(path, ".git"))) ?? "")?.[1] ?? "";
  const isOurs = dirname(made) === dirname(gitDir) && isGitDirName(basename(made), worktreeId);
  return isOurs ? made : gitDir;
};

/** Where a branch from an earlier time left its base. */
const forkPoint = async (
  room: Room,
  { repo, branch, signal }: Locked,
  base: string | null,
): Promise<string | null> => {
  if (base === null) return null;
  const call = { variables: gitDirVariables(repo.gitDir), signal };
  const found = await runGit(
    room,
    ["merge-base", "--end-of-options", base, `refs/heads/${branch}`],
    call,
  ).catch((error: unknown) => {
    if (error instanceof GitError && error.exitCode === 1) return null;
    throw error;
  });
  return found?.stdout.trim() ?? base;
};

/** A worktree of a repository without a commit, which `git worktree add` cannot make. */
const makeOrphan = async (room: Room, made: Worktree): Promise<Worktree> => {
  const worktree = { ...made, gitDir: await freeGitDir(made.commonDir, made.worktreeId) };
  await announce(room, { ready: false, leftOut: [], worktree });
  await mkdir(worktree.path);
  await reclaim(room, worktree);
  await verify(worktree);
  await writeMarker(room, { ready: true, leftOut: [], worktree });
  return worktree;
};

const somethingAt = async (path: string): Promise<boolean> => (await lstat(path).catch(() => null)) !== null;
