import { expect, test } from "vitest";
import { addTo, makeWorktree, never, plainGit, write } from "./repos.fixture.ts";

/** Two jobs of one repository; the agent of each has stashed a file of its own. */
const stashed = async () => {
  const made = await makeWorktree();
  const { repos, repo, worktree: one } = made;
  const two = await addTo(repos, repo, "two");
  for (const { path, worktreeId } of [one, two]) {
    await write(path, { "README.md": `by ${worktreeId}\n` });
    await plainGit(path, "stash");
  }
  return { ...made, one, two, commit: await plainGit(one.path, "rev-parse", "stash@{1}") };
};

test("what a job left in the stash is not pushed, is salvaged, and is no longer there for the next job", async () => {
  const { repos, one, two, commit } = await stashed();
  expect(await repos.inspect(one, never)).toMatchObject({ dirty: false, stashed: 1 });
  expect(await repos.isPushed(one, never)).toBe(false);
  const ref = await repos.salvage(one, "one", never);
  expect(ref).toBe("refs/service/salvage/one");
  expect(await plainGit(one.commonDir, "log", "--format=%H", String(ref))).toContain(commit);
  expect(await repos.isPushed(one, never)).toBe(true);
  expect(await plainGit(one.path, "stash", "list")).toMatch(/^stash@\{0\}: WIP on service\/two: .*$/);
  await plainGit(two.path, "stash", "pop");
  expect(await plainGit(two.path, "show", ":README.md")).toBe("hello");
  expect(await repos.salvage(one, "one", never)).toBeNull();
});

test("a stash that was made on another branch than the job's is salvaged, and left for who may have made it", async () => {
  const { repos, worktree } = await makeWorktree();
  await plainGit(worktree.path, "checkout", "--quiet", "-b", "fix-tests");
  await write(worktree.path, { "README.md": "stashed\n" });
  await plainGit(worktree.path, "stash");
  const ref = await repos.salvage(worktree, "one", never);
  const commits = await plainGit(worktree.path, "log", "--format=%H", String(ref));
  expect(commits).toContain(await plainGit(worktree.path, "rev-parse", "stash@{0}"));
});

test("branches that a job shared with others are named", async () => {
  const { repos, worktree } = await makeWorktree();
  await plainGit(worktree.path, "checkout", "--quiet", "-b", "fix-tests");
  const { shared } = await repos.inspect(worktree, never);
  expect(shared).toEqual([
    "Local branches are shared by all jobs of the repository; the agent used fix-tests.",
  ]);
});
