import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { commitFile, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { makeWorktree } from "./repos.fixture.ts";
import { savedDirOf } from "./repos.ts";

const exchanged = { ".svc/in/a.txt": "1\n", ".svc/out/deep/b.txt": "1\n" };

test("files that are exchanged get into no commit, whatever the agent and .gitignore say; they stay where they are", async () => {
  const { repos, worktree } = await makeWorktree({
    ".gitignore": "!.svc/*\n!.svc/**\n",
    ".svc/checks.yml": "1\n",
  });
  const { path, cacheDir } = worktree;
  await write(path, { ...exchanged, ".svc/checks.yml": "2\n" });
  await mkdir(join(path, ".svc/out/nested/.git"), { recursive: true });
  await commitFile(path, "work.txt");
  await write(path, { ".svc/out/staged.txt": "1\n", "left.txt": "1\n" });
  await plainGit(path, "add", "--force", ".svc/out/staged.txt");
  const { paths, kept } = await repos.inspect(worktree, never);
  expect({ paths: paths.toSorted(), kept }).toEqual({
    paths: [".svc/checks.yml", "left.txt", "work.txt"],
    kept: [],
  });
  const { ref } = await repos.salvage(worktree, "saved", never);
  await repos.commitAll(worktree, "work", never);
  for (const [place, commit] of [
    [savedDirOf(cacheDir), String(ref)],
    [path, "HEAD"],
  ] as const) {
    const names = (await plainGit(place, "ls-tree", "-r", "--name-only", commit)).split("\n");
    expect(names.filter((name) => name.startsWith(".svc/"))).toEqual([".svc/checks.yml"]);
    expect(names).toEqual(expect.arrayContaining(["left.txt", "work.txt"]));
  }
  expect(await read(path, ".svc/out/deep/b.txt")).toBe("1\n");
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false, kept: [] });
});

test("an agent that adds everything leaves them out by itself", async () => {
  const { worktree } = await makeWorktree();
  await write(worktree.path, exchanged);
  await commitFile(worktree.path, "work.txt");
  expect(await plainGit(worktree.path, "ls-tree", "-r", "--name-only", "HEAD")).toBe("README.md\nwork.txt");
});

test("what the base has there stays as it is; links and files in that place break nothing", async () => {
  const { repos, worktree } = await makeWorktree({ ".svc/out/old.txt": "1\n", "a.txt": "1\n" });
  const { path } = worktree;
  await write(path, { ".svc/out/old.txt": "2\n", "a.txt": "2\n" });
  expect((await repos.inspect(worktree, never)).paths).toEqual(["a.txt"]);
  await rm(join(path, ".svc"), { recursive: true });
  await symlink("/etc", join(path, ".svc"));
  expect((await repos.inspect(worktree, never)).paths.toSorted()).toEqual([
    ".svc",
    ".svc/out/old.txt",
    "a.txt",
  ]);
  await rm(join(path, ".svc"));
  await mkdir(join(path, ".svc"));
  await symlink("/etc", join(path, ".svc/out"));
  await writeFile(join(path, ".svc/in"), "1\n");
  expect(await repos.inspect(worktree, never)).toMatchObject({ paths: ["a.txt"], kept: [] });
});
