import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { commitFile, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, makeRepos, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { openTree } from "../lib/remove-tree.ts";
import { savedDirOf } from "./repos.ts";

const makePipe = (path: string) => promisify(execFile)("mkfifo", [path]);

type Made = Awaited<ReturnType<typeof makeWorktree>>;

const salvagedFiles = async ({ repos, worktree }: Made): Promise<string[]> => {
  const ref = await salvagedRef(repos, worktree, "job", never);
  expect(ref).toBe("refs/service/salvage/job");
  return (await plainGit(savedDirOf(worktree.cacheDir), "ls-tree", "-r", "--name-only", ref ?? "")).split(
    "\n",
  );
};

test.each([
  ["the worktree's index and HEAD", ({ worktree }: Made) => worktree.gitDir, "index"],
  ["the cached clone's config and HEAD", ({ repo }: Made) => repo.gitDir, "config"],
])("named pipes in place of %s block nothing", async (_, gitDir, name) => {
  const made = await makeWorktree();
  await write(made.worktree.path, { "work.txt": "1\n" });
  for (const file of [join(gitDir(made), name), join(gitDir(made), "HEAD")]) {
    await rm(file);
    await makePipe(file);
  }
  expect(await salvagedFiles(made)).toEqual(["README.md", "work.txt"]);
});

test("a named pipe that git would wait for keeps the worktree, with the reason", async () => {
  const made = await makeWorktree();
  const { repos } = await makeRepos({ ...made.settings, gitTimeout: 2 });
  await write(made.worktree.path, { "deep/work.txt": "1\n" });
  await makePipe(join(made.worktree.path, "deep/.gitignore"));
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

test.each([
  ["a file that names nothing", (gitDir: string) => writeFile(gitDir, "gitdir: /nowhere\n")],
  ["a link to nothing", (gitDir: string) => symlink("/nowhere", gitDir)],
])("with %s in place of the clone the files are saved, and the next agent gets a clone", async (_, plant) => {
  const made = await makeWorktree();
  const { repos, repo, worktree } = made;
  await write(worktree.path, { "work.txt": "1\n" });
  await rm(worktree.gitDir, { recursive: true });
  await plant(worktree.gitDir);
  expect(await repos.isPushed(worktree, never)).toBe(false);
  expect(await salvagedFiles(made)).toEqual(["README.md", "work.txt"]);
  await addTo(repos, repo, "one");
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/one\n?? work.txt");
});

test("commits and files are saved although the agent filled index and packed refs with garbage", async () => {
  const made = await makeWorktree();
  const { repos, repo, worktree } = made;
  await plainGit(worktree.path, "checkout", "--quiet", "-b", "aside");
  const aside = await commitFile(worktree.path, "aside.txt");
  await plainGit(worktree.path, "checkout", "--quiet", "service/one");
  const tip = await commitFile(worktree.path, "committed.txt");
  await write(worktree.path, { "work.txt": "1\n" });
  for (const name of ["index", "packed-refs"])
    await writeFile(join(worktree.gitDir, name), Buffer.from("garbage \0\xff\n".repeat(100), "latin1"));
  expect(await salvagedFiles(made)).toEqual(["README.md", "committed.txt", "work.txt"]);
  const saved = await plainGit(savedDirOf(worktree.cacheDir), "rev-list", "refs/service/salvage/job");
  for (const commit of [aside, tip]) expect(saved).toContain(commit);
  await addTo(repos, repo, "one");
  expect(await plainGit(worktree.path, "log", "-1", "--format=%H", "origin/main")).toBe(worktree.baseSha);
  const all = await repos.commitAll(worktree, "all", never);
  expect(await plainGit(worktree.path, "rev-parse", "HEAD", "HEAD^")).toBe(`${all}\n${tip}`);
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
