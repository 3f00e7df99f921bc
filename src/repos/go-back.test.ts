import { lstat, mkdir, readdir, readlink, rename, rm, stat, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { makeWorktree, never, plainGit, read, write } from "./repos.fixture.ts";
import type { Worktree } from "./repos.ts";

type Made = Awaited<ReturnType<typeof makeWorktree>>;

/** Everything that a user of git can see of a worktree. */
const everything = async ({ path, branch }: Worktree) => ({
  status: await plainGit(path, "status", "--porcelain", "--branch", "--ignored", "--untracked-files=all"),
  staged: await plainGit(path, "diff", "--cached"),
  unstaged: await plainGit(path, "diff"),
  head: await plainGit(path, "rev-parse", "HEAD"),
  on: await plainGit(path, "rev-parse", "--abbrev-ref", "HEAD"),
  tip: await plainGit(path, "rev-parse", branch),
  untracked: await read(path, "untracked/new.txt"),
  ignored: await read(path, "debug.log"),
});

const commitAll = async (path: string): Promise<void> => {
  await plainGit(path, "add", "--all");
  await plainGit(path, "commit", "--quiet", "--message", "a commit");
};

/** A worktree with all that an earlier job can leave: commits, staged and unstaged changes, new, deleted and ignored files. */
const worked = async (): Promise<Made> => {
  const made = await makeWorktree({
    ".gitignore": "*.log\n",
    "a.txt": "1\n",
    "b.txt": "1\n",
    "gone.txt": "1\n",
    "removed.txt": "1\n",
  });
  const { path } = made.worktree;
  await write(path, { "committed.txt": "1\n" });
  await commitAll(path);
  await write(path, { "a.txt": "staged\n", "staged.txt": "staged\n" });
  await plainGit(path, "add", "a.txt", "staged.txt");
  await write(path, { "a.txt": "staged, then changed\n", "b.txt": "changed\n", "removed.txt": null });
  await write(path, { "untracked/new.txt": "new\n", "debug.log": "noise\n" });
  await rm(join(path, "gone.txt"));
  return made;
};

test.for<[string, (worktree: Worktree) => Promise<unknown>, string[]]>([
  ["changed nothing", async () => undefined, []],
  [
    "changed, deleted and added files",
    async ({ path }) => {
      await write(path, {
        "a.txt": "x\n",
        "gone.txt": "back\n",
        "mine/too.txt": "x\n",
        "committed.txt": "x\n",
      });
      await rm(join(path, "untracked"), { recursive: true });
    },
    ["a.txt", "committed.txt", "gone.txt", "mine/too.txt", "untracked/new.txt"],
  ],
  ["committed everything", ({ path }) => commitAll(path), ["1 commit"]],
  ["emptied the index", ({ path }) => plainGit(path, "read-tree", "--empty"), []],
  ["staged everything", ({ path }) => plainGit(path, "add", "--all"), []],
  [
    "threw all changes away",
    async ({ path }) => {
      await plainGit(path, "reset", "--hard", "--quiet");
      await plainGit(path, "clean", "-fdq");
    },
    ["a.txt", "b.txt", "gone.txt", "removed.txt", "staged.txt", "untracked/new.txt"],
  ],
  [
    "went back to the base and committed there",
    async ({ path, branch, baseSha }) => {
      await plainGit(path, "stash", "--include-untracked", "--quiet");
      await plainGit(path, "reset", "--hard", "--quiet", String(baseSha));
      await plainGit(path, "checkout", "--quiet", "-B", branch);
      await write(path, { "c.txt": "1\n" });
      await commitAll(path);
    },
    [
      "a.txt",
      "b.txt",
      "c.txt",
      "committed.txt",
      "gone.txt",
      "removed.txt",
      "staged.txt",
      "untracked/new.txt",
    ],
  ],
  [
    "checked another branch out and deleted the worktree's",
    async ({ path, branch }) => {
      await plainGit(path, "checkout", "--quiet", "-b", "elsewhere");
      await plainGit(path, "branch", "--quiet", "-D", branch);
    },
    [],
  ],
  [
    "hid its files behind .gitignore files, one behind the other",
    async ({ path }) => {
      await write(path, {
        "x/.gitignore": "*\n!.gitignore\n",
        "x/y/.gitignore": "z.txt\n",
        "x/y/z.txt": "1\n",
      });
      await write(path, { "x/.gitignore": "/y\n" });
    },
    ["x/.gitignore"],
  ],
  [
    "let git take its changes for none",
    async ({ path }) => {
      await plainGit(path, "update-index", "--assume-unchanged", "a.txt");
      await plainGit(path, "update-index", "--skip-worktree", "b.txt");
      await write(path, { "a.txt": "x\n", "b.txt": "x\n" });
    },
    ["a.txt", "b.txt"],
  ],
  [
    "put directories in place of files and the other way round",
    async ({ path }) => {
      await rm(join(path, "a.txt"));
      await rm(join(path, "untracked"), { recursive: true });
      await write(path, { "a.txt/deep/file.txt": "x\n", untracked: "x\n" });
    },
    ["a.txt", "a.txt/deep/file.txt", "untracked", "untracked/new.txt"],
  ],
  [
    "broke index, HEAD and .git file",
    async ({ path, gitDir }) => {
      await writeFile(join(gitDir, "index"), "broken");
      await writeFile(join(gitDir, "HEAD"), "");
      await rm(join(path, ".git"));
    },
    [],
  ],
])("earlier work survives a reader that %s", async ([, harm, reported]) => {
  const { repos, worktree } = await worked();
  const before = await everything(worktree);
  const since = await repos.snapshot(worktree, never);
  expect(await everything(worktree)).toEqual(before);
  await harm(worktree);
  expect((await repos.discardChanges(worktree, since, never)).toSorted()).toEqual(reported);
  expect(await everything(worktree)).toEqual(before);
  expect(await repos.discardChanges(worktree, since, never)).toEqual([]);
});

test("a directory that was deleted, or replaced by a link, comes back; what the link leads to is not touched", async () => {
  const { repos, worktree, root } = await worked();
  const since = await repos.snapshot(worktree, never);
  const files = (await readdir(worktree.path)).filter((name) => name !== "debug.log");
  await rm(worktree.path, { recursive: true });
  expect(await repos.discardChanges(worktree, since, never)).toContain("untracked/new.txt");
  expect(await readdir(worktree.path)).toEqual(files);
  const moved = join(root, "moved");
  for (const state of [since, null]) {
    await rename(worktree.path, moved);
    await write(moved, { "precious.txt": "x" });
    const there = await readdir(moved);
    await symlink(moved, worktree.path);
    await repos.discardChanges(worktree, state, never);
    expect(await readdir(moved)).toEqual(there);
    expect((await lstat(worktree.path)).isDirectory()).toBe(true);
    await rm(moved, { recursive: true });
  }
});

test("a worktree that stands on another branch, or on none, stands there again", async () => {
  const { repos, worktree } = await makeWorktree();
  const { path } = worktree;
  await plainGit(path, "checkout", "--quiet", "-b", "elsewhere");
  await write(path, { "a.txt": "1\n" });
  await commitAll(path);
  const tip = await plainGit(path, "rev-parse", "HEAD");
  const onBranch = await repos.snapshot(worktree, never);
  await write(path, { "b.txt": "1\n" });
  await commitAll(path);
  await plainGit(path, "checkout", "--quiet", worktree.branch);
  expect(await repos.discardChanges(worktree, onBranch, never)).toEqual(["a.txt"]);
  expect(await plainGit(path, "status", "--short", "--branch")).toBe("## elsewhere");
  expect(await plainGit(path, "rev-parse", "HEAD")).toBe(tip);
  await plainGit(path, "checkout", "--quiet", "--detach");
  const detached = await repos.snapshot(worktree, never);
  await plainGit(path, "checkout", "--quiet", worktree.branch);
  await repos.discardChanges(worktree, detached, never);
  expect(await plainGit(path, "status", "--short", "--branch")).toBe("## HEAD (no branch)");
  expect(await plainGit(path, "rev-parse", "HEAD")).toBe(tip);
});

test("the branch of another job that a reader checked out is not set back", async () => {
  const { repos, worktree, repo } = await makeWorktree();
  await plainGit(worktree.path, "checkout", "--quiet", "-b", "service/other");
  const since = await repos.snapshot(worktree, never);
  await plainGit(worktree.path, "checkout", "--quiet", worktree.branch);
  await plainGit(worktree.path, "commit", "--quiet", "--allow-empty", "--message", "x");
  const theirs = await plainGit(worktree.path, "rev-parse", "HEAD");
  await plainGit(repo.gitDir, "update-ref", "refs/heads/service/other", theirs);
  await repos.discardChanges(worktree, since, never);
  expect(await plainGit(repo.gitDir, "rev-parse", "service/other")).toBe(theirs);
  expect(await plainGit(worktree.path, "rev-parse", "HEAD")).toBe(worktree.baseSha);
});

test("files that did not change are not written again", async () => {
  const { repos, worktree } = await worked();
  const since = await repos.snapshot(worktree, never);
  const before = await stat(join(worktree.path, "untracked/new.txt"));
  await write(worktree.path, { "a.txt": "x\n" });
  await repos.discardChanges(worktree, since, never);
  const after = await stat(join(worktree.path, "untracked/new.txt"));
  expect([after.ino, after.mtimeMs]).toEqual([before.ino, before.mtimeMs]);
});

test("a link that was left out of the checkout stays out", async () => {
  const { repos, remote } = await makeWorktree();
  await symlink("/etc", join(remote.work, "out"));
  await remote.commit({});
  const again = await repos.fetch({ url: repos.parseUrl(remote.url), jobId: "job", signal: never });
  const worktree = await repos.addWorktree({
    repo: again,
    worktreeId: "two",
    jobId: "two",
    branch: "service/two",
    baseRef: "main",
    signal: never,
  });
  const since = await repos.snapshot(worktree, never);
  await write(worktree.path, { out: "a file\n" });
  expect(await repos.discardChanges(worktree, since, never)).toEqual(["out"]);
  expect(await readlink(join(worktree.path, "out")).catch(() => null)).toBeNull();
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/two");
});

test("repositories that an earlier job made inside the worktree stay repositories", async () => {
  const { repos, worktree } = await makeWorktree();
  const nested = join(worktree.path, "nested");
  await mkdir(nested);
  await plainGit(nested, "init", "--quiet");
  await plainGit(
    nested,
    "-c",
    "user.name=a",
    "-c",
    "user.email=a@b",
    "commit",
    "--quiet",
    "--allow-empty",
    "-m",
    "x",
  );
  await write(nested, { "a.txt": "1\n" });
  const since = await repos.snapshot(worktree, never);
  await write(nested, { "a.txt": "2\n", "b.txt": "1\n" });
  expect(await repos.discardChanges(worktree, since, never)).toEqual(["nested/a.txt", "nested/b.txt"]);
  expect(await read(nested, "a.txt")).toBe("1\n");
  expect(await plainGit(nested, "log", "--format=%s")).toBe("x");
});

test("in a worktree without a repository or without a commit work survives as well", async () => {
  const { repos } = await makeWorktree();
  const worktree = await repos.addWorktree({
    repo: null,
    worktreeId: "empty",
    jobId: "empty",
    branch: "service/empty",
    baseRef: "main",
    signal: never,
  });
  await write(worktree.path, { "a.txt": "1\n" });
  const since = await repos.snapshot(worktree, never);
  await commitAll(worktree.path);
  await write(worktree.path, { "a.txt": "2\n" });
  expect(await repos.discardChanges(worktree, since, never)).toEqual(["a.txt"]);
  expect(await read(worktree.path, "a.txt")).toBe("1\n");
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe(
    "## No commits yet on service/empty\n?? a.txt",
  );
});
