import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { until } from "../../test/until.ts";
import { makeWorktree, never, plainGit, read, write } from "./repos.fixture.ts";

test("changes are thrown away and told, whatever shape they are in", async () => {
  const { repos, worktree } = await makeWorktree({ "README.md": "hello\n", "dir/file.txt": "x\n" });
  expect(await repos.discardChanges(worktree, null, never)).toEqual([]);
  await write(worktree.path, { "a.txt": "1\n" });
  await plainGit(worktree.path, "add", "--all");
  await plainGit(worktree.path, "commit", "--quiet", "--message", "by the agent");
  await rm(join(worktree.path, "dir"), { recursive: true });
  await write(worktree.path, { dir: "a file now\n", "README.md": "changed\n", "new/b.txt": "1\n" });
  await mkdir(join(worktree.path, "nested"));
  await plainGit(join(worktree.path, "nested"), "init", "--quiet");
  expect((await repos.discardChanges(worktree, null, never)).toSorted()).toEqual([
    "README.md",
    "a.txt",
    "dir",
    "dir/file.txt",
    "new/b.txt",
  ]);
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/one");
  expect(await plainGit(worktree.path, "rev-parse", "HEAD")).toBe(worktree.baseSha);
  await plainGit(worktree.path, "commit", "--quiet", "--allow-empty", "--message", "nothing");
  expect(await repos.discardChanges(worktree, null, never)).toEqual(["1 commit"]);
  await rm(worktree.path, { recursive: true });
  await repos.discardChanges(worktree, null, never);
  expect(await read(worktree.path, "dir/file.txt")).toBe("x\n");
});

test("a change that was made within a second of its being staged is not missed", async () => {
  const { repos, worktree } = await makeWorktree({ "a.txt": "0\n" });
  const { path } = worktree;
  // git compares whole seconds.
  const second = (): number => Math.floor(Date.now() / 1000);
  await until(async () => {
    const before = second();
    await write(path, { "a.txt": "1\n" });
    await plainGit(path, "add", "a.txt");
    await write(path, { "a.txt": "2\n" });
    return before === second();
  });
  const then = second();
  await until(() => second() > then);
  const since = await repos.snapshot(worktree, never);
  const staged = await plainGit(path, "status", "--short");
  await rm(join(worktree.gitDir, "index"));
  await repos.discardChanges(worktree, since, never);
  expect([staged, await plainGit(path, "status", "--short")]).toEqual(["MM a.txt", "MM a.txt"]);
  const ref = await repos.salvage(worktree, "job", never);
  expect(await plainGit(path, "show", `${ref}:a.txt`)).toBe("2");
  const tip = await repos.commitAll(worktree, "all", never);
  expect(await plainGit(path, "show", `${tip}:a.txt`)).toBe("2");
});
