import { expect, test } from "vitest";
import { addTo, fetchInto, makeWorktree, never, plainGit, write } from "./repos.fixture.ts";

test("a commit that another job has pushed as well is salvaged for this job all the same, one on its own pushed branch is not", async () => {
  const { repos, remote, repo, worktree: one } = await makeWorktree();
  const two = await addTo(repos, repo, "two");
  await write(one.path, { "a.txt": "1\n" });
  await plainGit(one.path, "add", "--all");
  await plainGit(one.path, "commit", "--quiet", "--message", "the same in both");
  const same = await plainGit(one.path, "rev-parse", "HEAD");
  // Two agents that do the same in the same second make the same commit.
  await plainGit(two.path, "merge", "--quiet", "--ff-only", same);
  await repos.push(one, never);
  await fetchInto(repos, remote.url);
  expect(await repos.salvage(two, "job-two", never)).toBe("refs/service/salvage/job-two");
  expect(await plainGit(two.path, "rev-parse", "refs/service/salvage/job-two")).toBe(same);
  expect(await repos.salvage(one, "job-one", never)).toBeNull();
});

test("a commit of one of the remote's own branches is no unfinished work", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await remote.commit({ "theirs.txt": "1\n" }, { branch: "feature" });
  await fetchInto(repos, remote.url);
  await plainGit(worktree.path, "merge", "--quiet", "--ff-only", "origin/feature");
  expect(await repos.salvage(worktree, "job", never)).toBeNull();
});
