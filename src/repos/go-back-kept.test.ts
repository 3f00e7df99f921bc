import { existsSync } from "node:fs";
import { mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeWorktree, never, plainGit, read, write } from "./repos.fixture.ts";

const asAgent = (cwd: string, ...args: string[]): Promise<string> =>
  plainGit(cwd, "-c", "user.name=agent", "-c", "user.email=agent@localhost", ...args);

const makeRepository = async (path: string): Promise<void> => {
  await mkdir(path, { recursive: true });
  await asAgent(path, "init", "--quiet");
  await write(path, { "a.txt": "1\n" });
  await asAgent(path, "add", "--all");
  await asAgent(path, "commit", "--quiet", "--message", "earlier");
};

test.for<[string, (nested: string, outside: string) => Promise<unknown>]>([
  ["deleted its history", (nested) => rm(join(nested, ".git"), { recursive: true })],
  ["deleted all of it", (nested) => rm(nested, { recursive: true })],
  [
    "committed in it",
    async (nested) => {
      await write(nested, { "b.txt": "1\n" });
      await asAgent(nested, "add", "--all");
      await asAgent(nested, "commit", "--quiet", "--message", "mine");
    },
  ],
  [
    "put a link in its place, out of the worktree",
    async (nested, outside) => {
      await rm(nested, { recursive: true });
      await symlink(outside, nested);
    },
  ],
  [
    "deleted it, and hid a link in its place from git",
    async (nested, outside) => {
      await rm(nested, { recursive: true });
      await symlink(outside, nested);
      await write(join(nested, "../.."), { ".gitignore": "nested\n" });
    },
  ],
])("a repository that an earlier job made is as it was after a reader %s", async ([, harm]) => {
  const { repos, worktree, root } = await makeWorktree();
  const nested = join(worktree.path, "deps/nested");
  await makeRepository(nested);
  await write(nested, { "dirty.txt": "1\n" });
  const outside = join(root, "outside");
  await mkdir(outside);
  const since = await repos.snapshot(worktree, never);
  await harm(nested, outside);
  await repos.discardChanges(worktree, since, never);
  expect(await plainGit(nested, "log", "--format=%s")).toBe("earlier");
  expect(await plainGit(nested, "status", "--porcelain")).toBe("?? dirty.txt");
  expect(existsSync(join(outside, ".git"))).toBe(false);
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("?? deps/");
});

test("a repository without files is not put back through a link that git ignores", async () => {
  const { repos, worktree, root } = await makeWorktree({ ".gitignore": "/deps/*\n!/deps/*/\n" });
  const nested = join(worktree.path, "deps/nested");
  await makeRepository(nested);
  await rm(join(nested, "a.txt"));
  const outside = join(root, "outside");
  await mkdir(outside);
  const since = await repos.snapshot(worktree, never);
  await rm(nested, { recursive: true });
  await symlink(outside, nested);
  await repos.discardChanges(worktree, since, never);
  expect(existsSync(join(outside, ".git"))).toBe(false);
  expect(await plainGit(nested, "log", "--format=%s")).toBe("earlier");
});

test("a repository that a reader made is taken away, history and all", async () => {
  const { repos, worktree } = await makeWorktree();
  await write(worktree.path, { "mine/earlier.txt": "1\n" });
  const since = await repos.snapshot(worktree, never);
  for (const name of ["new", "mine"]) await makeRepository(join(worktree.path, name));
  expect((await repos.discardChanges(worktree, since, never)).toSorted()).toEqual([
    "mine/a.txt",
    "new/a.txt",
  ]);
  expect(existsSync(join(worktree.path, "new/.git"))).toBe(false);
  expect(existsSync(join(worktree.path, "mine/.git"))).toBe(false);
  expect(await read(worktree.path, "mine/earlier.txt")).toBe("1\n");
  expect(await repos.isPushed(worktree, never)).toBe(false);
});

test("git directories of submodules are as they were after a reader deleted them", async () => {
  const { repos, worktree } = await makeWorktree();
  const modules = join(worktree.gitDir, "modules/sub");
  await makeRepository(modules);
  const since = await repos.snapshot(worktree, never);
  await rename(modules, join(worktree.path, "taken"));
  await repos.discardChanges(worktree, since, never);
  expect(await plainGit(modules, "log", "--format=%s")).toBe("earlier");
});

test.for<[string, (path: string) => Promise<unknown>]>([
  ["deleted .gitignore", (path) => rm(join(path, ".gitignore"))],
  ["wrote another .gitignore", (path) => writeFile(join(path, ".gitignore"), "!.env\n!build/\n!deps\n")],
  ["emptied .gitignore, and the index", (path) => emptied(path)],
])("files that git ignored before stay when a reader %s", async ([, harm]) => {
  const { repos, worktree } = await makeWorktree({ ".gitignore": "build/\n.env\n/deps\n*.log\n" });
  const { path } = worktree;
  await write(path, { ".env": "key\n", "build/deep/a.o": "1\n", "src/b.log": "1\n", "src/a.txt": "1\n" });
  await makeRepository(join(path, "deps/vendored"));
  const since = await repos.snapshot(worktree, never);
  await harm(path);
  await write(path, { "new.txt": "1\n", "src/new.txt": "1\n" });
  const discarded = await repos.discardChanges(worktree, since, never);
  expect(discarded.toSorted()).toEqual([".gitignore", "new.txt", "src/new.txt"]);
  expect(await read(path, ".env")).toBe("key\n");
  expect(await read(path, "build/deep/a.o")).toBe("1\n");
  expect(await read(path, "src/b.log")).toBe("1\n");
  expect(await plainGit(join(path, "deps/vendored"), "log", "--format=%s")).toBe("earlier");
  expect(await plainGit(path, "status", "--porcelain", "--untracked-files=all")).toBe("?? src/a.txt");
});

const emptied = async (path: string): Promise<void> => {
  await writeFile(join(path, ".gitignore"), "");
  await plainGit(path, "read-tree", "--empty");
  await plainGit(path, "add", "--all", "--force");
};
