import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { makeRepos, makeWorktree, never, plainGit, read, write, salvagedRef } from "./repos.fixture.ts";
import { openTree } from "../lib/remove-tree.ts";

const makePipe = (path: string) => promisify(execFile)("mkfifo", [path]);

type Made = Awaited<ReturnType<typeof makeWorktree>>;

const salvagedFiles = async ({ repos, worktree }: Made): Promise<string[]> => {
  const ref = await salvagedRef(repos, worktree, "job", never);
  expect(ref).toBe("refs/service/salvage/job");
  return (await plainGit(worktree.cacheDir, "ls-tree", "-r", "--name-only", ref ?? "")).split("\n");
};

test.each(["index", "HEAD"])("a named pipe in place of the worktree's %s blocks nothing", async (name) => {
  const made = await makeWorktree();
  await write(made.worktree.path, { "work.txt": "1\n" });
  await rm(join(made.worktree.gitDir, name));
  await makePipe(join(made.worktree.gitDir, name));
  expect(await salvagedFiles(made)).toEqual(["README.md", "work.txt"]);
});

test.each(["config", "HEAD"])(
  "a named pipe in place of the cached clone's %s blocks nothing",
  async (name) => {
    const made = await makeWorktree();
    await write(made.worktree.path, { "work.txt": "1\n" });
    await rm(join(made.repo.gitDir, name));
    await makePipe(join(made.repo.gitDir, name));
    expect(await salvagedFiles(made)).toEqual(["README.md", "work.txt"]);
  },
);

test("a named pipe that git would wait for keeps the worktree, with the reason", async () => {
  const made = await makeWorktree();
  const { repos } = await makeRepos({ ...made.settings, gitTimeout: 2 });
  await write(made.worktree.path, { "deep/work.txt": "1\n" });
  await makePipe(join(made.worktree.path, "deep/.gitignore"));
  expect(await repos.isPushed(made.worktree, never)).toBe(false);
  expect(await repos.salvage(made.worktree, "job", never)).toEqual({
    ref: null,
    kept: ["git cannot take what is in it (git add did not finish within 2 s)"],
  });
});

test("a file that is not in the encoding it should have keeps the worktree, with the reason", async () => {
  const { repos, worktree } = await makeWorktree();
  await write(worktree.path, {
    ".gitattributes": "*.rc working-tree-encoding=UTF-16LE-BOM\n",
    "dialog.rc": "odd length\n",
  });
  await expect(repos.commitAll(worktree, "all", never)).rejects.toThrow("dialog.rc");
  const { ref, kept } = await repos.salvage(worktree, "job", never);
  expect(ref).toBeNull();
  expect(kept).toEqual([expect.stringContaining("dialog.rc")]);
});

test("something else in place of .git keeps the worktree, with the reason", async () => {
  const { repos, worktree } = await makeWorktree();
  await rm(worktree.gitDir, { recursive: true });
  await writeFile(worktree.gitDir, "gitdir: /nowhere\n");
  const reason = ".git is not the directory any more that the service made";
  await expect(repos.inspect(worktree, never)).rejects.toThrow(reason);
  expect(await repos.isPushed(worktree, never)).toBe(false);
  expect(await repos.salvage(worktree, "job", never)).toEqual({ ref: null, kept: [reason] });
  expect(await repos.readWorktree("one")).toMatchObject({ kept: [reason] });
});

test("a tree is opened for its owner and keeps its other rights", async () => {
  const made = await makeWorktree();
  const { path } = made.worktree;
  await write(path, { "closed/file.sh": "1\n" });
  await promisify(execFile)("chmod", ["051", join(path, "closed", "file.sh")]);
  await promisify(execFile)("chmod", ["000", join(path, "closed")]);
  await openTree(path);
  expect((await stat(join(path, "closed"))).mode & 0o777).toBe(0o700);
  expect((await stat(join(path, "closed", "file.sh"))).mode & 0o777).toBe(0o751);
});

test("a cached clone that was deleted under a worktree is named, not a missing file; the worktree can be removed", async () => {
  const { repos, repo, worktree, settings } = await makeWorktree();
  await write(worktree.path, { "work.txt": "work\n" });
  await rm(join(settings.reposRoot, repo.key), { recursive: true });
  const message = `The cached clone ${repo.gitDir} was deleted`;
  await expect(repos.inspect(worktree, never)).rejects.toThrow(message);
  await expect(repos.commitAll(worktree, "work", never)).rejects.toThrow(message);
  await expect(repos.salvage(worktree, "one", never)).rejects.toThrow(message);
  await expect(repos.push(worktree, never)).rejects.toThrow(message);
  expect(await read(worktree.path, "work.txt")).toBe("work\n");
  await repos.removeWorktree(worktree, never);
  expect(existsSync(worktree.path)).toBe(false);
});
