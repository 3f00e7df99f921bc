import { existsSync } from "node:fs";
import { rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  addTo,
  commitFile,
  fetchInto,
  makeWorktree,
  never,
  plainGit,
  write,
  type Remote,
} from "./repos.fixture.ts";

/** Somebody commits to a pushed branch. */
const byOthers = async ({ work, url, commit }: Remote, branch: string, files: Record<string, string>) => {
  await plainGit(work, "fetch", "--quiet", url, branch);
  await plainGit(work, "checkout", "--quiet", "--force", "-B", "theirs", "FETCH_HEAD");
  return commit(files, { branch });
};

const pushed = async () => {
  const made = await makeWorktree({ ".gitignore": "ignored.txt\n" });
  const { repos, remote, repo, worktree } = made;
  await commitFile(worktree.path, "ours.txt");
  await repos.push(worktree, never);
  const again = async () => addTo(repos, await fetchInto(repos, repo.url), "one");
  return {
    ...made,
    again,
    theirs: (files: Record<string, string>) => byOthers(remote, worktree.branch, files),
  };
};

test("what others have committed to the branch is taken over, and the next push goes through", async () => {
  const { repos, remote, worktree, theirs, again } = await pushed();
  await symlink("/etc/hostname", join(remote.work, "out"));
  const commit = await theirs({ "theirs.txt": "theirs\n" });
  expect(await again()).not.toHaveProperty("behind");
  expect(await plainGit(worktree.path, "rev-parse", "HEAD", worktree.branch)).toBe(`${commit}\n${commit}`);
  expect(existsSync(join(worktree.path, "theirs.txt"))).toBe(true);
  // A link out of the repository is left out, as in a first checkout.
  expect(existsSync(join(worktree.path, "out"))).toBe(false);
  expect(await repos.isPushed(worktree, never)).toBe(true);
  const next = await commitFile(worktree.path, "next.txt");
  await repos.push(worktree, never);
  expect(await plainGit(remote.url, "rev-parse", worktree.branch)).toBe(next);
  expect((await again()).warnings).toEqual([]);
});

test.each([
  ["has changes", "theirs.txt", (path: string) => write(path, { "dirt.txt": "1\n" })],
  ["has commits of its own", "theirs.txt", (path: string) => commitFile(path, "mine.txt")],
  ["has an ignored file in the way", "ignored.txt", (path: string) => write(path, { "ignored.txt": "1\n" })],
  [
    "is on another branch",
    "theirs.txt",
    (path: string) => plainGit(path, "checkout", "--quiet", "-b", "another"),
  ],
])("a worktree that %s stays as it is, and says what it lacks", async (_, file, change) => {
  const { remote, worktree, theirs, again } = await pushed();
  await plainGit(remote.work, "config", "core.excludesFile", "/dev/null");
  await write(remote.work, { ".gitignore": "" });
  const commit = await theirs({ [file]: "theirs\n", ".gitignore": "" });
  await change(worktree.path);
  const seen = () => plainGit(worktree.path, "log", "--format=%H %D", "-1");
  const before = (await seen()).slice(0, 40);
  const { behind, warnings } = await again();
  expect(behind).toContain(`The branch ${worktree.branch} has commits at the remote`);
  expect(behind).toContain(commit);
  expect(warnings).toEqual([behind]);
  expect((await seen()).slice(0, 40)).toBe(before);
});

test("so does one that is made again from its saved branch", async () => {
  const { repos, worktree, theirs, again } = await pushed();
  await commitFile(worktree.path, "mine.txt");
  await repos.saveBranch(worktree, never);
  await rm(worktree.path, { recursive: true });
  const commit = await theirs({ "theirs.txt": "theirs\n" });
  const { behind, warnings } = await again();
  expect(behind).toContain(commit);
  expect(warnings).toContain(behind);
  expect(existsSync(join(worktree.path, "mine.txt"))).toBe(true);
});
