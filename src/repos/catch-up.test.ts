import { existsSync } from "node:fs";
import { rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { addTo, commitFile, fetchInto, makeWorktree, never, plainGit, write } from "./repos.fixture.ts";

/** A worktree whose branch is pushed, and the next job's checkout of it. */
const pushed = async () => {
  const made = await makeWorktree({ ".gitignore": "ignored.txt\n" });
  const { repos, remote, repo, worktree } = made;
  await commitFile(worktree.path, "ours.txt");
  await repos.push(worktree, never);
  const again = async () => addTo(repos, await fetchInto(repos, repo.url), "one");
  /** Somebody commits to the branch. */
  const theirs = async (files: Record<string, string>): Promise<string> => {
    await plainGit(remote.work, "fetch", "--quiet", remote.url, worktree.branch);
    await plainGit(remote.work, "checkout", "--quiet", "--force", "-B", "theirs", "FETCH_HEAD");
    return remote.commit(files, { branch: worktree.branch });
  };
  return { ...made, again, theirs };
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

test("a worktree that has changes, an ignored file in the way, another branch or commits of its own stays as it is, and says what it lacks", async () => {
  const { repos, remote, worktree, theirs, again } = await pushed();
  const { path, branch } = worktree;
  await write(remote.work, { ".gitignore": "" });
  const commit = await theirs({ "ignored.txt": "theirs\n", ".gitignore": "" });
  const steps: [() => Promise<unknown>, () => Promise<unknown>][] = [
    [() => write(path, { "dirt.txt": "1\n" }), () => rm(join(path, "dirt.txt"))],
    [() => write(path, { "ignored.txt": "1\n" }), () => rm(join(path, "ignored.txt"))],
    [
      () => plainGit(path, "checkout", "--quiet", "-b", "another"),
      () => plainGit(path, "checkout", "--quiet", branch),
    ],
    [() => commitFile(path, "mine.txt"), () => repos.saveBranch(worktree, never)],
    // It is made again from its saved branch.
    [() => rm(path, { recursive: true }), async () => undefined],
  ];
  let head = "";
  for (const [change, undo] of steps) {
    await change();
    if (existsSync(path)) head = await plainGit(path, "rev-parse", "HEAD");
    const { behind, warnings } = await again();
    expect(behind).toContain(`The branch ${branch} has commits at the remote`);
    expect(behind).toContain(commit);
    expect(warnings).toContain(behind);
    expect(await plainGit(path, "rev-parse", "HEAD")).toBe(head);
    await undo();
  }
  expect(existsSync(join(path, "mine.txt"))).toBe(true);
});
