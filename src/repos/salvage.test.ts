import { expect, test } from "vitest";
import { fetchInto, makeWorktree, never, plainGit, salvagedRef } from "./repos.fixture.ts";

test("a commit of one of the remote's own branches is no unfinished work", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await remote.commit({ "theirs.txt": "1\n" }, { branch: "feature" });
  await fetchInto(repos, remote.url);
  await plainGit(worktree.path, "pull", "--quiet", "--ff-only", remote.url, "feature");
  expect(await salvagedRef(repos, worktree, "job", never)).toBeNull();
});
