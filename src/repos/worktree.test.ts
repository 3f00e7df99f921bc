import { spawnSync } from "node:child_process";
import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, makeRemote, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { savedDirOf } from "./repos.ts";

test("a worktree is on its own branch at the tip of the base, for the agent's git too", async () => {
  const { remote, worktree, repo, settings } = await makeWorktree();
  const tip = await plainGit(remote.url, "rev-parse", "main");
  expect(worktree).toMatchObject({
    worktreeId: "one",
    path: join(settings.worktreeRoot, "one"),
    gitDir: join(settings.worktreeRoot, "one/.git"),
    cacheDir: repo.gitDir,
    branch: "service/one",
    baseSha: tip,
    warnings: [],
  });
  expect(await plainGit(worktree.path, "rev-parse", "--show-toplevel")).toBe(worktree.path);
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/one");
  await write(worktree.path, { "a.txt": "1\n" });
  await plainGit(worktree.path, "add", "a.txt");
  await plainGit(worktree.path, "commit", "--quiet", "--message", "by the agent");
  expect(await plainGit(worktree.path, "log", "-1", "--format=%an <%ae>")).toBe("svc <svc@localhost>");
});

test("a base can be a tag, lightweight or annotated, or a branch with a slash in its name", async () => {
  const { repos, remote } = await makeWorktree();
  const tip = await plainGit(remote.work, "rev-parse", "HEAD");
  await plainGit(remote.work, "tag", "light");
  await plainGit(remote.work, "tag", "--annotate", "--message", "x", "heavy");
  await plainGit(remote.work, "push", "--quiet", remote.url, "light", "heavy", "HEAD:refs/heads/release/1.0");
  const repo = await fetchInto(repos, remote.url);
  for (const baseRef of ["light", "heavy", "release/1.0"]) {
    const id = baseRef.replaceAll(/\W/g, "-");
    expect(await addTo(repos, repo, id, { baseRef })).toMatchObject({ baseSha: tip, baseRef });
  }
});

test("a base that does not exist is named, with those that do", async () => {
  const { repos, repo } = await makeWorktree();
  await expect(addTo(repos, repo, "two", { baseRef: "master" })).rejects.toThrow(
    /has no branch or tag "master"\. It has: main\.\nWhat to do: Name one of them/,
  );
  await expect(addTo(repos, repo, "two", { baseRef: "--detach" })).rejects.toThrow(
    "not the name of a branch or tag",
  );
  expect(await repos.findWorktree("two")).toBeNull();
});

test("without a base it is main, or the remote's default branch where there is no main", async () => {
  const { repos, repo, remote } = await makeWorktree();
  await plainGit(remote.url, "branch", "trunk", "main");
  await plainGit(remote.url, "symbolic-ref", "HEAD", "refs/heads/trunk");
  const left = { baseRef: "" };
  await fetchInto(repos, remote.url);
  expect(await addTo(repos, repo, "two", left)).toMatchObject({ baseRef: "main" });
  await plainGit(remote.url, "branch", "-D", "main");
  await fetchInto(repos, remote.url);
  const tip = await plainGit(remote.url, "rev-parse", "trunk");
  expect(await addTo(repos, repo, "three", left)).toMatchObject({ baseRef: "trunk", baseSha: tip });
  await rm((await addTo(repos, repo, "three", left)).path, { recursive: true });
  expect(await addTo(repos, repo, "three", left)).toMatchObject({ baseRef: "trunk", baseSha: tip });
  await plainGit(remote.url, "symbolic-ref", "HEAD", "refs/heads/nowhere");
  await expect(addTo(repos, repo, "four", left)).rejects.toThrow(
    /no branch or tag "main"\. It has: trunk\.\nWhat to do: Name/,
  );
});

test("an empty repository gives a worktree whose branch is the first", async () => {
  const remote = await makeRemote(null);
  const { repos } = await makeRepos();
  const worktree = await addTo(repos, await fetchInto(repos, remote.url), "one");
  expect(worktree.baseSha).toBeNull();
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe(
    "## No commits yet on service/one",
  );
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false, head: null, ahead: 0 });
  await write(worktree.path, { "a.txt": "1\n" });
  const tip = await repos.commitAll(worktree, "first", never);
  await repos.push(worktree, never);
  expect(await plainGit(remote.url, "rev-parse", "service/one")).toBe(tip);
  expect(await repos.inspect(worktree, never)).toMatchObject({
    dirty: false,
    ahead: 1,
    diffStat: { files: 1, insertions: 1 },
  });
});

test("a job without a repository gets an empty git repository, where work is committed and salvaged", async () => {
  const { repos } = await makeRepos();
  const worktree = await addTo(repos, null, "one");
  expect(await readdir(worktree.path)).toEqual([".git"]);
  expect(await plainGit(worktree.path, "rev-parse", "--show-toplevel")).toBe(worktree.path);
  await write(worktree.path, { "a.txt": "1\n" });
  const added = spawnSync("git", ["add", "a.txt"], { cwd: worktree.path, encoding: "utf8" });
  expect(added).toMatchObject({ status: 0, stderr: "" });
  await plainGit(worktree.path, "commit", "--quiet", "--message", "by the agent");
  await write(worktree.path, { "b.txt": "2\n" });
  expect(await repos.inspect(worktree, never)).toMatchObject({
    dirty: true,
    ahead: 1,
    diffStat: { files: 2 },
  });
  expect(await salvagedRef(repos, worktree, "job", never)).toBe("refs/service/salvage/job");
  await repos.removeWorktree(worktree, never);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "show", "refs/service/salvage/job:b.txt")).toBe("2");
  const again = await addTo(repos, null, "one");
  expect(await read(again.path, "a.txt")).toBe("1\n");
  await expect(repos.push(again, never)).rejects.toMatchObject({ reason: "push_failed" });
});

test("an unused repository of a job without one is removed with its worktree", async () => {
  const { repos, settings } = await makeRepos();
  await repos.removeWorktree(await addTo(repos, null, "one"), never);
  expect(await readdir(join(settings.worktreeRoot, ".owned"))).toEqual([]);
});

test("worktrees of one repository, made at once: none fails", async () => {
  const remote = await makeRemote();
  const { repos } = await makeRepos();
  const make = async (_: unknown, index: number) =>
    addTo(repos, await fetchInto(repos, remote.url), `w${index}`);
  const worktrees = await Promise.all(Array.from({ length: 8 }, make));
  for (const { path, branch } of worktrees)
    expect(await plainGit(path, "status", "--short", "--branch")).toBe(`## ${branch}`);
  expect(await repos.listWorktreeIds()).toHaveLength(8);
  await Promise.all(worktrees.map((worktree) => repos.removeWorktree(worktree, never)));
  expect(await repos.listWorktreeIds()).toEqual([]);
});

test("an existing worktree is reused as the agent left it", async () => {
  const { repos, repo, worktree } = await makeWorktree();
  await write(worktree.path, { "a.txt": "unfinished\n" });
  expect(await addTo(repos, repo, "one")).toEqual(worktree);
  expect(await read(worktree.path, "a.txt")).toBe("unfinished\n");
});

test("a worktree whose directory was deleted, or that was removed, is made again at the same path from its branch", async () => {
  const { repos, repo, remote, worktree } = await makeWorktree();
  await write(worktree.path, { "a.txt": "done\n" });
  await repos.commitAll(worktree, "work", never);
  await repos.saveBranch(worktree, never);
  await rm(worktree.path, { recursive: true });
  expect(await addTo(repos, repo, "one")).toEqual(worktree);
  expect(await read(worktree.path, "a.txt")).toBe("done\n");

  await repos.removeWorktree(worktree, never);
  await remote.commit({ "later.txt": "1\n" });
  const again = await addTo(repos, await fetchInto(repos, remote.url), "one");
  expect(again).toEqual(worktree);
  expect(await repos.inspect(again, never)).toMatchObject({ dirty: false, ahead: 1, diffStat: { files: 1 } });
});

test("a checkout that a kill interrupted is made again", async () => {
  const { repos, repo, settings, worktree } = await makeWorktree();
  const marker = join(settings.worktreeRoot, ".owned/one.json");
  await writeFile(marker, (await read(marker)).replace('"ready": true', '"ready": false'));
  await rm(join(worktree.path, "README.md"));
  await writeFile(join(worktree.gitDir, "index.lock"), "");
  const again = await addTo(repos, repo, "one");
  expect(await read(again.path, "README.md")).toBe("hello\n");
  expect(await plainGit(again.path, "status", "--porcelain")).toBe("");
});

test("foreign and broken owner files are no worktrees", async () => {
  const { repos, settings } = await makeWorktree();
  await writeFile(join(settings.worktreeRoot, ".owned/torn.json"), '{"version": 1, "wor');
  await writeFile(join(settings.worktreeRoot, ".owned/foreign.json"), '{"version": 9}');
  expect(await repos.findWorktree("torn")).toBeNull();
  expect(await repos.findWorktree("foreign")).toBeNull();
  expect(await repos.findWorktree("one")).not.toBeNull();
});
