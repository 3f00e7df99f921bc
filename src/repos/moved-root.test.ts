import { cp, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createRepos } from "./create.ts";
import { addTo, makeWorktree, never, plainGit, read, write, salvagedRef } from "./repos.fixture.ts";
import type { Worktree } from "./repos.ts";

type Made = Awaited<ReturnType<typeof makeWorktree>>;

/** The service after a start with another SERVICE_WORKTREE_ROOT. */
const startedWith = ({ settings }: Made, worktreeRoot: string) =>
  createRepos({ settings: { ...settings, worktreeRoot }, env: process.env });

const here = async (made: Made): Promise<Worktree> => {
  const { worktree } = made;
  await write(worktree.path, { "committed.txt": "1\n" });
  await made.repos.commitAll(worktree, "work", never);
  await write(worktree.path, { "uncommitted.txt": "1\n" });
  return worktree;
};

test("a root that was moved as a whole, with the setting, is used as if it had always been there", async () => {
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

test("directories that were moved without their owner files belong to nobody and are left alone", async () => {
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
