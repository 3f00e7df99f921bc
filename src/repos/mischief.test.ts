import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { makeWorktree, never, plainGit, read, write } from "./repos.fixture.ts";
import { openTree } from "./open-up.ts";

const makePipe = (path: string) => promisify(execFile)("mkfifo", [path]);

type Made = Awaited<ReturnType<typeof makeWorktree>>;

const salvagedFiles = async ({ repos, worktree }: Made): Promise<string[]> => {
  const ref = await repos.salvage(worktree, "job", never);
  expect(ref).toBe("refs/service/salvage/job");
  return (await plainGit(worktree.commonDir, "ls-tree", "-r", "--name-only", ref ?? "")).split("\n");
};

test.each(["index", "HEAD"])("a named pipe in place of the worktree's %s holds nothing up", async (name) => {
  const made = await makeWorktree();
  await write(made.worktree.path, { "work.txt": "1\n" });
  await rm(join(made.worktree.gitDir, name));
  await makePipe(join(made.worktree.gitDir, name));
  expect(await salvagedFiles(made)).toEqual(["README.md", "work.txt"]);
});

test.each(["config", "HEAD"])(
  "a named pipe in place of the cached clone's %s holds nothing up",
  async (name) => {
    const made = await makeWorktree();
    await write(made.worktree.path, { "work.txt": "1\n" });
    await rm(join(made.repo.gitDir, name));
    await makePipe(join(made.repo.gitDir, name));
    expect(await salvagedFiles(made)).toEqual(["README.md", "work.txt"]);
  },
);

test.each([".gitignore", ".gitattributes"])(
  "a named pipe called %s does not keep work from being saved",
  async (name) => {
    const made = await makeWorktree();
    await write(made.worktree.path, { "deep/work.txt": "1\n" });
    await makePipe(join(made.worktree.path, "deep", name));
    expect(await salvagedFiles(made)).toEqual(["README.md", "deep/work.txt"]);
  },
);

test("a file that is not in the encoding it should have is salvaged as it is, and not committed", async () => {
  const made = await makeWorktree();
  await write(made.worktree.path, {
    ".gitattributes": "*.rc working-tree-encoding=UTF-16LE-BOM\n",
    "dialog.rc": "odd length\n",
    "work.txt": "1\n",
  });
  await expect(made.repos.commitAll(made.worktree, "all", never)).rejects.toThrow("dialog.rc");
  expect(await salvagedFiles(made)).toEqual([".gitattributes", "README.md", "dialog.rc", "work.txt"]);
  const { commonDir } = made.worktree;
  expect(await plainGit(commonDir, "show", "refs/service/salvage/job:dialog.rc")).toBe("odd length");
});

test("files of a repository inside a repository inside the worktree are kept", async () => {
  const made = await makeWorktree();
  const outer = join(made.worktree.path, "outer");
  for (const place of [outer, join(outer, "inner")]) {
    await mkdir(place);
    await plainGit(place, "init", "--quiet");
    await writeFile(join(place, "work.txt"), "1\n");
  }
  const saved = ["README.md", "outer/inner/work.txt", "outer/work.txt"];
  expect((await salvagedFiles(made)).filter((name) => !name.startsWith(".salvaged/"))).toEqual(saved);
});

test("a tree is opened for its owner and keeps its other rights", async () => {
  const made = await makeWorktree();
  const { path } = made.worktree;
  await write(path, { "closed/file.sh": "1\n" });
  await promisify(execFile)("chmod", ["051", join(path, "closed", "file.sh")]);
  await promisify(execFile)("chmod", ["000", join(path, "closed")]);
  await openTree(path);
  expect((await stat(join(path, "closed"))).mode & 0o777).toBe(0o700);
  expect((await stat(join(path, "closed", "file.sh"))).mode & 0o777).toBe(0o451);
});

test("a cached clone that was deleted under a worktree is named, not a missing file; the worktree can be removed", async () => {
  const { repos, repo, worktree, settings } = await makeWorktree();
  await write(worktree.path, { "work.txt": "work\n" });
  await rm(join(settings.reposRoot, repo.key), { recursive: true });
  const told = `The cached clone ${repo.gitDir} was deleted`;
  await expect(repos.inspect(worktree, never)).rejects.toThrow(told);
  await expect(repos.commitAll(worktree, "work", never)).rejects.toThrow(told);
  await expect(repos.salvage(worktree, "one", never)).rejects.toThrow(told);
  await expect(repos.push(worktree, never)).rejects.toThrow(told);
  expect(await read(worktree.path, "work.txt")).toBe("work\n");
  await repos.removeWorktree(worktree, never);
  expect(existsSync(worktree.path)).toBe(false);
});
