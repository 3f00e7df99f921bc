import { expect, test } from "vitest";
import { makeWorktree, never, plainGit, salvagedRef, write } from "./repos.fixture.ts";

test("salvage refs and job branches go when their last commit is past the time, and nothing else", async () => {
  const { repos, repo, worktree } = await makeWorktree();
  await write(worktree.path, { "a.txt": "1\n" });
  const ref = String(await salvagedRef(repos, worktree, "one", never));
  const tip = await plainGit(repo.gitDir, "rev-parse", ref);
  await plainGit(repo.gitDir, "update-ref", "refs/heads/service/done", tip);
  await plainGit(repo.gitDir, "update-ref", "refs/heads/other", tip);
  const refs = (): Promise<string> => plainGit(repo.gitDir, "for-each-ref", "--format=%(refname)");
  const all = await refs();
  expect(await repos.expireRefs(new Date(Date.now() - 60_000), never)).toBe(0);
  expect(await refs()).toBe(all);
  expect(await repos.expireRefs(new Date(Date.now() + 60_000), never)).toBe(2);
  expect(await refs()).toBe("refs/heads/other\nrefs/remotes/origin/main");
  // The worktree borrows nothing that is gone.
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/one\n?? a.txt");
});
