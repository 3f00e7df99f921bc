import { existsSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import {
  addTo,
  makeRepos,
  makeWorktree,
  never,
  plainGit,
  read,
  salvagedRef,
  write,
} from "./repos.fixture.ts";

/** A worktree as an older version made it: its git directory in the cached clone, tied to it by a `.git` file. */
const oldWorktree = async () => {
  const made = await makeWorktree();
  const { repos, repo, settings, worktree } = made;
  const { path, baseSha } = worktree;
  await repos.removeWorktree(worktree, never);
  await plainGit(
    repo.gitDir,
    "worktree",
    "add",
    "--quiet",
    "--lock",
    "-b",
    "service/one",
    path,
    String(baseSha),
  );
  const { path: _p, gitDir: _g, cacheDir: _c, ...facts } = worktree;
  const owner = { version: 1, ready: true, leftOut: [], worktree: facts, instance: "pod", admin: "one" };
  await writeFile(join(settings.worktreeRoot, ".owned/one.json"), JSON.stringify(owner));
  return made;
};

test("a worktree of an older version becomes a clone, with its commits, index and files", async () => {
  const { repos, repo, worktree } = await oldWorktree();
  const { path } = worktree;
  await write(path, { "committed.txt": "1\n" });
  await plainGit(path, "add", "--all");
  await plainGit(path, "commit", "--quiet", "--message", "work");
  await plainGit(path, "checkout", "--quiet", "--detach");
  await plainGit(path, "commit", "--quiet", "--allow-empty", "--message", "detached");
  const head = await plainGit(path, "rev-parse", "HEAD");
  await write(path, { "staged.txt": "1\n", "new.txt": "1\n" });
  await plainGit(path, "add", "staged.txt");
  const before = await plainGit(path, "status", "--porcelain", "--branch");
  expect(await repos.readWorktree("one")).toMatchObject({
    ready: true,
    directoryExists: true,
    instance: "pod",
  });
  expect(await addTo(repos, repo, "one")).toEqual(worktree);
  expect(await plainGit(path, "status", "--porcelain", "--branch")).toBe(before);
  expect(await plainGit(path, "rev-parse", "--absolute-git-dir", "HEAD")).toBe(`${worktree.gitDir}\n${head}`);
  expect(existsSync(join(repo.gitDir, "worktrees/one"))).toBe(false);
  const ref = await salvagedRef(repos, worktree, "one", never);
  expect(await plainGit(repo.gitDir, "ls-tree", "--name-only", String(ref))).toBe(
    "README.md\ncommitted.txt\nnew.txt\nstaged.txt",
  );
  await repos.removeWorktree(worktree, never);
  expect(await repos.listWorktreeIds()).toEqual([]);
});

test("one that is pushed, or whose directory was deleted, is removed", async () => {
  const { repos, worktree } = await oldWorktree();
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await rm(worktree.path, { recursive: true });
  expect(await repos.salvage(worktree, "one", never)).toEqual({ ref: null, kept: [] });
  await repos.removeWorktree(worktree, never);
  expect(await repos.listWorktreeIds()).toEqual([]);
});

test("one without a repository gets its git directory back", async () => {
  const { repos, settings } = await makeRepos();
  const worktree = await addTo(repos, null, "one");
  await write(worktree.path, { "a.txt": "1\n" });
  await repos.commitAll(worktree, "work", never);
  const old = join(settings.worktreeRoot, ".owned/one.git");
  await rename(worktree.gitDir, old);
  await writeFile(worktree.gitDir, `gitdir: ${old}\n`);
  const { path: _p, gitDir: _g, cacheDir: _c, ...facts } = worktree;
  const owner = { version: 1, ready: true, leftOut: [], worktree: facts, instance: "pod", admin: null };
  await writeFile(join(settings.worktreeRoot, ".owned/one.json"), JSON.stringify(owner));
  expect(await repos.isPushed(worktree, never)).toBe(false);
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/one");
  expect(await read(worktree.path, "a.txt")).toBe("1\n");
  expect(existsSync(old)).toBe(false);
});

test("one whose directory in the cached clone belongs to another instance now is saved with its base", async () => {
  const { repos, repo, worktree } = await oldWorktree();
  await write(worktree.path, { "new.txt": "1\n" });
  await rm(join(repo.gitDir, "worktrees/one"), { recursive: true });
  await mkdir(join(repo.gitDir, "worktrees/one"));
  await writeFile(join(repo.gitDir, "worktrees/one/gitdir"), "/other/one/.git\n");
  const ref = await salvagedRef(repos, worktree, "one", never);
  expect(await plainGit(repo.gitDir, "ls-tree", "--name-only", String(ref))).toBe("README.md\nnew.txt");
  expect(existsSync(join(repo.gitDir, "worktrees/one/gitdir"))).toBe(true);
});
