import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { fetchInto, makeWorktree, never, plainGit, salvagedRef, write } from "./repos.fixture.ts";

test("files of a killed git are in the way once at most", async () => {
  const { repos, repo, remote, worktree } = await makeWorktree();
  await plainGit(remote.work, "push", "--quiet", remote.url, "HEAD:refs/heads/gone");
  await fetchInto(repos, remote.url);
  await plainGit(repo.gitDir, "pack-refs", "--all");
  await mkdir(join(repo.gitDir, "refs/remotes/origin"), { recursive: true });
  for (const name of ["packed-refs.new", "packed-refs.lock", "shallow.lock", "refs/remotes/origin/main.lock"])
    await writeFile(join(repo.gitDir, name), "");
  await plainGit(remote.work, "push", "--quiet", remote.url, ":refs/heads/gone");
  const tip = await remote.commit({ "a.txt": "1\n" });
  await fetchInto(repos, remote.url);
  expect(
    await plainGit(repo.gitDir, "for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes"),
  ).toBe(`${tip} refs/remotes/origin/main`);
  await write(worktree.path, { "work.txt": "work\n" });
  expect(await salvagedRef(repos, worktree, "one", never)).toBe("refs/service/salvage/one");
  await plainGit(repo.gitDir, "pack-refs", "--all");
  await writeFile(join(repo.gitDir, "packed-refs.new"), "");
  expect(await repos.expireRefs(new Date(Date.now() + 60_000), never)).toBe(1);
});

test("lock files of an agent's killed git keep no work from being committed, saved and pushed", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await write(worktree.path, { "work.txt": "work\n" });
  const leave = async (): Promise<void> => {
    await mkdir(join(worktree.gitDir, "refs/heads/service"), { recursive: true });
    for (const name of [
      "index.lock",
      "HEAD.lock",
      "packed-refs.new",
      "packed-refs.lock",
      "refs/heads/service/one.lock",
    ])
      await writeFile(join(worktree.gitDir, name), "");
  };
  await leave();
  expect(await salvagedRef(repos, worktree, "one", never)).toBe("refs/service/salvage/one");
  await leave();
  const tip = await repos.commitAll(worktree, "work", never);
  await leave();
  await repos.push(worktree, never);
  expect(await plainGit(remote.url, "rev-parse", "service/one")).toBe(tip);
});
