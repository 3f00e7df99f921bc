import { cp, readdir, rename, rm, mkdir, realpath, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createRepos } from "./create.ts";
import { usualWall } from "./wall.fixture.ts";
import { never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, makeWorktree, salvagedRef, fetchInto, makeRepos, makeRemote } from "./repos.fixture.ts";
import type { Worktree } from "./repos.ts";
import { temporaryDirectory } from "../../test/temporary.ts";

type Made = Awaited<ReturnType<typeof makeWorktree>>;

/** The service after a start with another SERVICE_WORKTREE_ROOT. */
const startedWith = ({ settings }: Made, worktreeRoot: string) =>
  createRepos({ settings: { ...settings, worktreeRoot }, env: process.env, confine: usualWall });

const here = async (made: Made): Promise<Worktree> => {
  const { worktree } = made;
  await write(worktree.path, { "committed.txt": "1\n" });
  await made.repos.commitAll(worktree, "work", never);
  await write(worktree.path, { "uncommitted.txt": "1\n" });
  return worktree;
};

test("a root that was moved as a whole, with the setting, is used like before", async () => {
  const made = await makeWorktree();
  await here(made);
  const scratch = await addTo(made.repos, null, "scratch");
  await write(scratch.path, { "a.txt": "1\n" });
  const root = join(made.root, "elsewhere", "worktrees");
  await cp(made.settings.worktreeRoot, root, { recursive: true });
  await rm(made.settings.worktreeRoot, { recursive: true });
  const repos = startedWith(made, root);
  const found = await repos.findWorktree("one");
  expect(found).toMatchObject({ path: join(root, "one"), gitDir: join(root, "one/.git") });
  const worktree = found ?? made.worktree;
  expect(await repos.readWorktree("one")).toMatchObject({ worktree, ready: true, directoryExists: true });
  expect(await repos.inspect(worktree, never)).toMatchObject({
    dirty: true,
    ahead: 1,
    diffStat: { files: 2 },
  });
  expect(await salvagedRef(repos, worktree, "job", never)).not.toBeNull();
  expect(await repos.isPushed(worktree, never)).toBe(false);
  expect(await addTo(repos, made.repo, "one")).toEqual(worktree);
  expect(await read(worktree.path, "uncommitted.txt")).toBe("1\n");
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe(
    "## service/one\n?? uncommitted.txt",
  );
  const moved = await addTo(repos, null, "scratch");
  expect(moved.path).toBe(join(root, "scratch"));
  expect(await plainGit(moved.path, "status", "--short")).toBe("?? a.txt");
  for (const each of [worktree, moved]) await repos.removeWorktree(each, never);
  expect(await readdir(root)).toEqual([".owned"]);
});

test("directories that were moved without their owner files are never touched", async () => {
  const made = await makeWorktree();
  const worktree = await here(made);
  const root = join(made.root, "other");
  const repos = startedWith(made, root);
  await addTo(repos, made.repo, "two");
  await rename(worktree.path, join(root, "one"));
  await expect(addTo(repos, made.repo, "one")).rejects.toThrow(
    `${join(root, "one")} exists and is not the service's`,
  );
  await repos.removeWorktree(worktree, never);
  expect(await read(root, "one/uncommitted.txt")).toBe("1\n");
  expect(await made.repos.findWorktree("one")).toEqual(worktree);
});

test.each([
  ["each of the two roots", { worktreeRoot: "link", reposRoot: "other" }],
  ["a directory above both, which are not there yet", { worktreeRoot: "link/a/b", reposRoot: "link/c" }],
])("a worktree can be made, used and removed when %s is a link", async (_, paths) => {
  const root = await temporaryDirectory();
  for (const name of ["link", "other"]) {
    await mkdir(join(root, `real-${name}`));
    await symlink(join(root, `real-${name}`), join(root, name));
  }
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
