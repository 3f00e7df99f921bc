import { mkdir, realpath, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { addTo, fetchInto, makeRepos, makeRemote, never, plainGit, write } from "./repos.fixture.ts";

test.each([
  ["the root of worktrees", { worktreeRoot: "link" }],
  ["the root of clones", { reposRoot: "link" }],
  ["a directory above both, which are not there yet", { worktreeRoot: "link/a/b", reposRoot: "link/c" }],
])("a worktree can be made, used and removed when %s is a link", async (_, paths) => {
  const root = await temporaryDirectory();
  await mkdir(join(root, "real"));
  await symlink(join(root, "real"), join(root, "link"));
  const absolute = Object.entries(paths).map(([name, path]) => [name, join(root, path)]);
  const { repos } = await makeRepos(Object.fromEntries(absolute));
  const repo = await fetchInto(repos, (await makeRemote()).url);
  const worktree = await addTo(repos, repo, "one");
  expect(worktree.path).toBe(await realpath(repos.worktreePath("one")));
  expect(await addTo(repos, repo, "one")).toEqual(worktree);
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await write(worktree.path, { "work.txt": "1\n" });
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("");
  const scratch = await addTo(repos, null, "two");
  for (const one of [worktree, scratch]) await repos.removeWorktree(one, never);
  expect(await repos.listWorktreeIds()).toEqual([]);
});
