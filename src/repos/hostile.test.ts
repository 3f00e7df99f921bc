import { existsSync } from "node:fs";
import { mkdir, readFile, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import {
  addTo,
  fetchInto,
  makePlace,
  makeRemote,
  never,
  plainGit,
  read,
  write,
  type Remote,
} from "./repos.fixture.ts";
import type { Repos, Worktree } from "./repos.ts";

/** A program that leaves a trace when anything runs it. */
const makeTrap = async (): Promise<{ program: string; sprung: () => boolean }> => {
  const root = await temporaryDirectory();
  const program = join(root, "trap");
  await writeFile(program, `#!/bin/sh\ntouch ${root}/sprung\ncat 2>/dev/null\n`, { mode: 0o755 });
  return { program, sprung: () => existsSync(join(root, "sprung")) };
};

/** Everything the service ever does with a worktree. */
const wholeLife = async (repos: Repos, worktree: Worktree): Promise<void> => {
  await write(worktree.path, { "work.txt": "work\n", "work.dat": "work\n" });
  await repos.inspect(worktree, never);
  await repos.salvage(worktree, "job", never);
  await repos.commitAll(worktree, "work", never);
  await repos.push(worktree, never);
  await repos.discardChanges(worktree, null, never);
};

const checkOut = async (remote: Remote): Promise<{ repos: Repos; worktree: Worktree }> => {
  const { repos } = await makePlace();
  return { repos, worktree: await addTo(repos, await fetchInto(repos, remote.url), "one") };
};

test("hooks that a repository brings along are not run, wherever it puts them", async () => {
  const trap = await makeTrap();
  const hook = await readFile(trap.program, "utf8");
  const remote = await makeRemote({
    ".githooks/pre-commit": hook,
    ".git-template/hooks/post-checkout": hook,
    ".husky/pre-push": hook,
  });
  // Of the remote's own hooks those of its receiving end do run: they are the server's, not the clone's.
  for (const name of ["post-checkout", "pre-commit", "pre-push", "post-merge"]) {
    await mkdir(join(remote.url, "hooks"), { recursive: true });
    await writeFile(join(remote.url, "hooks", name), hook, { mode: 0o755 });
  }
  const { repos, worktree } = await checkOut(remote);
  await wholeLife(repos, worktree);
  expect(trap.sprung()).toBe(false);
});

test("filters, diff and merge drivers that .gitattributes names do nothing", async () => {
  const trap = await makeTrap();
  const remote = await makeRemote({
    ".gitattributes": "*.dat filter=evil diff=evil merge=evil\n",
    ".gitconfig": `[filter "evil"]\n\tsmudge = ${trap.program}\n\tclean = ${trap.program}\n\trequired = true\n`,
    "a.dat": "data\n",
  });
  const { repos, worktree } = await checkOut(remote);
  expect(await read(worktree.path, "a.dat")).toBe("data\n");
  await wholeLife(repos, worktree);
  expect(trap.sprung()).toBe(false);
});

test("submodules are not fetched, whatever their URL says, and a warning names them", async () => {
  const trap = await makeTrap();
  const remote = await makeRemote();
  const commit = await plainGit(remote.work, "rev-parse", "HEAD");
  await writeFile(
    join(remote.work, ".gitmodules"),
    `[submodule "a"]\n\tpath = a\n\turl = ext::${trap.program}\n\tupdate = !${trap.program}\n[submodule "b"]\n\tpath = b\n\turl = --upload-pack=${trap.program}\n`,
  );
  for (const name of ["a", "b"])
    await plainGit(remote.work, "update-index", "--add", "--cacheinfo", `160000,${commit},${name}`);
  await plainGit(remote.work, "add", ".gitmodules");
  await plainGit(remote.work, "commit", "--quiet", "--message", "x");
  await plainGit(remote.work, "push", "--quiet", remote.url, "HEAD:main");
  const { repos, worktree } = await checkOut(remote);
  expect(worktree.warnings).toEqual(["Submodules are not checked out: a, b."]);
  await wholeLife(repos, worktree);
  expect(trap.sprung()).toBe(false);
});

test("links that lead out of the worktree are left out, others stay, and that is no change", async () => {
  const remote = await makeRemote({ "dir/file.txt": "x\n", "deep/down/file.txt": "x\n" });
  const links: Record<string, string> = {
    absolute: "/etc/passwd",
    upward: "../../../etc/passwd",
    "dir/over": "../../x",
    // Leads out only because the other link is followed on the way.
    "deep/down/shallow": "../../dir",
    "deep/down/sly": "shallow/../../etc",
    loop: "loop",
    fine: "dir/file.txt",
    "dir/dangling": "../not-there",
    "ünï\ncode": "/etc",
  };
  for (const [name, target] of Object.entries(links)) await symlink(target, join(remote.work, name));
  await remote.commit({});
  const { repos, worktree } = await checkOut(remote);
  const kept = Object.keys(links).filter(
    (name) => existsSync(join(worktree.path, name)) || name === "dir/dangling",
  );
  expect(kept).toEqual(["deep/down/shallow", "fine", "dir/dangling"]);
  expect(worktree.warnings).toEqual([expect.stringMatching(/left out of the worktree: absolute, .*upward/)]);
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("");
  await write(worktree.path, { "work.txt": "1\n" });
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "show", "--name-only", "--format=")).toBe("work.txt");
  // What the agent puts in the place of such a link is its work and must not be lost.
  await write(worktree.path, { absolute: "2\n" });
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "show", "HEAD:absolute")).toBe("2");
  await repos.discardChanges(worktree, null, never);
  expect(existsSync(join(worktree.path, "absolute"))).toBe(false);
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("");
});

test("large files kept elsewhere stay pointers, with a warning", async () => {
  const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
  const remote = await makeRemote({
    "sub/.gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
    "sub/a.bin": pointer,
  });
  const { worktree } = await checkOut(remote);
  expect(await read(worktree.path, "sub/a.bin")).toBe(pointer);
  expect(worktree.warnings).toEqual([expect.stringContaining("Git LFS")]);
});

test("a .git file that the agent rewrote leads the service nowhere", async () => {
  const trap = await makeTrap();
  const remote = await makeRemote();
  const { repos, worktree } = await checkOut(remote);
  const evil = join(await temporaryDirectory(), "evil.git");
  await plainGit("/", "init", "--quiet", "--bare", evil);
  await writeFile(
    join(evil, "config"),
    `[core]\n\tbare = false\n\tfsmonitor = ${trap.program}\n\thooksPath = ${join(evil, "hooks")}\n[remote "origin"]\n\turl = ext::${trap.program}\n`,
  );
  await mkdir(join(evil, "hooks"), { recursive: true });
  await writeFile(join(evil, "hooks/pre-push"), await readFile(trap.program, "utf8"), { mode: 0o755 });
  await writeFile(join(worktree.path, ".git"), `gitdir: ${evil}\n`);
  await writeFile(join(worktree.gitDir, "commondir"), `${evil}\n`);
  await wholeLife(repos, worktree);
  expect(trap.sprung()).toBe(false);
  expect(await plainGit(remote.url, "log", "-1", "--format=%s", "service/one")).toBe("work");
  expect(await plainGit(evil, "for-each-ref")).toBe("");
});

test("a local repository with a program for its uploads does not get it run", async () => {
  const trap = await makeTrap();
  const remote = await makeRemote();
  await plainGit(remote.url, "config", "uploadpack.packObjectsHook", trap.program);
  await plainGit(remote.url, "config", "core.fsmonitor", trap.program);
  await checkOut(remote);
  expect(trap.sprung()).toBe(false);
});
