import { lstat, mkdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { canonicalConfig, restoreGitDirectory } from "./git-directory.ts";
import { ownedDirectory, ownedNames, readMarker } from "./marker.ts";
import { openDirectory } from "./open-up.ts";
import { ownerOf, writeOwner } from "./ownership.ts";
import { RepoError, type Worktree } from "./repos.ts";
import type { Room } from "./room.ts";

/** Makes git use the administrative directory that we know, whatever the `.git` file in the worktree says by now. */
export const worktreeVariables = ({ path, gitDir, commonDir }: Worktree): Record<string, string> => ({
  GIT_DIR: gitDir,
  GIT_COMMON_DIR: commonDir,
  GIT_WORK_TREE: path,
});

/**
 * Brings a worktree back under our control before we run git for it, now that its agent is gone: configuration, the
 * files that tie directory and administrative directory together, no lock files, a HEAD that git can read. What the
 * agent checked out or committed stays.
 */
export const reclaim = async (room: Room, worktree: Worktree): Promise<void> => {
  const { path, gitDir, commonDir, repoUrl, repoKey, branch } = worktree;
  const config = canonicalConfig(
    room.settings,
    repoKey === null ? { url: null, bare: false } : { url: repoUrl, bare: true },
  );
  if (repoKey !== null && (await lstat(commonDir).catch(() => null)) === null) {
    throw new RepoError(
      "worktree_failed",
      `The cached clone ${commonDir} was deleted while its worktree ${path} was in use. The files are still there: copy what is needed, and submit the task again.`,
    );
  }
  await restoreGitDirectory(commonDir, config);
  if (repoKey !== null) {
    await mkdir(gitDir, { recursive: true });
    await ensure(join(gitDir, "commondir"), "../..\n");
    await ensure(join(gitDir, "gitdir"), `${join(path, ".git")}\n`);
    await ensure(join(gitDir, "locked"), "belongs to the service\n");
    if ((await ownerOf(gitDir)) === null) {
      const maker = (await readMarker(room, worktree.worktreeId))?.instance;
      await writeOwner(gitDir, maker ?? room.settings.podName);
    }
  }
  for (const left of ["index.lock", "HEAD.lock", "config.worktree"])
    await rm(join(gitDir, left), { recursive: true, force: true });
  const head = await textOf(join(gitDir, "HEAD"));
  if (head === null || !/^(ref: refs\/heads\/\S+|[0-9a-f]{40})\n?$/.test(head)) {
    await ensure(join(gitDir, "HEAD"), `ref: refs/heads/${branch}\n`);
  }
  // The index too is replaced by git, not written: whatever else stands in its place would only be waited for.
  const index = await lstat(join(gitDir, "index")).catch(() => null);
  if (index?.isFile() === false) await rm(join(gitDir, "index"), { recursive: true, force: true });
  if (!(await hasDirectory(worktree))) return;
  await openDirectory(path);
  await setAsideRepository(room, worktree);
  await ensure(join(path, ".git"), `gitdir: ${gitDir}\n`);
};

/** An agent that ran `git init` has a history of its own there, which is not ours to delete yet; nor is an earlier one. */
const setAsideRepository = async (room: Room, { path, worktreeId }: Worktree): Promise<void> => {
  const found = await lstat(join(path, ".git")).catch(() => null);
  if (found?.isDirectory() !== true) return;
  const taken = new Set(await ownedNames(room));
  const first = `${worktreeId}.replaced`;
  let name = first;
  for (let count = 2; taken.has(name); count += 1) name = `${first}.${count}`;
  await rename(join(path, ".git"), join(ownedDirectory(room), name));
};

/** A link in its place is not the directory: it may lead anywhere. */
export const hasDirectory = async ({ path }: Pick<Worktree, "path">): Promise<boolean> =>
  (await lstat(path).catch(() => null))?.isDirectory() === true;

/**
 * Proves that the directory is a worktree of its own on its own branch: git in a directory that is none would silently
 * work on a repository further up.
 * @throws RepoError `worktree_failed`
 */
export const verify = async ({ path, gitDir, branch, repoKey }: Worktree): Promise<void> => {
  const [file, back, head] = await Promise.all(
    [join(path, ".git"), join(gitDir, "gitdir"), join(gitDir, "HEAD")].map(textOf),
  );
  const tied = repoKey === null || back === `${join(path, ".git")}\n`;
  if (file !== `gitdir: ${gitDir}\n` || !tied) {
    throw new RepoError("worktree_failed", `The worktree ${path} is not tied to its repository.`);
  }
  if (head !== `ref: refs/heads/${branch}\n`) {
    throw new RepoError("worktree_failed", `The worktree ${path} is not on the branch ${branch}.`);
  }
};

const ensure = async (file: string, text: string): Promise<void> => {
  if ((await textOf(file)) === text) return;
  const found = await lstat(file).catch(() => null);
  // A directory or a link that an agent put there gives way.
  if (found !== null && !found.isFile()) await rm(file, { recursive: true, force: true });
  await writeFileAtomic(file, text, 0o644);
};

/** The content of a regular file; null for anything else. */
export const textOf = async (file: string): Promise<string | null> => {
  const found = await lstat(file).catch(() => null);
  return found?.isFile() === true && found.size < 10_000 ? readFile(file, "utf8").catch(() => null) : null;
};
