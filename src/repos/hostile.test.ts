import { existsSync } from "node:fs";
import { appendFile, copyFile, mkdir, readFile, rm, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, makeRemote, type Remote, salvagedRef } from "./repos.fixture.ts";
import type { Repos, Worktree } from "./repos.ts";

/** A program that leaves a trace when anything runs it. */
const makeTrap = async (): Promise<{ program: string; sprung: () => boolean }> => {
  const root = await temporaryDirectory();
  const program = join(root, "trap");
  await writeFile(program, `#!/bin/sh\ntouch ${root}/sprung\n`, { mode: 0o755 });
  return { program, sprung: () => existsSync(join(root, "sprung")) };
};

/** Everything the service ever does with a worktree. */
const wholeLife = async (repos: Repos, worktree: Worktree): Promise<void> => {
  await write(worktree.path, { "work.txt": "work\n", "work.dat": "work\n" });
  const { repoUrl, worktreeId, baseRef } = worktree;
  const asked = {
    repoUrl,
    worktreeId,
    baseRef,
    base: null,
    format: "patch",
    maxBytes: 100_000,
    signal: never,
  } as const;
  await repos.diff({ ...asked, head: null });
  await repos.inspect(worktree, never);
  await salvagedRef(repos, worktree, "job", never);
  await repos.commitAll(worktree, "work", never);
  await repos.push(worktree, never);
  await repos.diff({ ...asked, head: "refs/service/salvage/job" });
};

const checkOut = async (remote: Remote): Promise<{ repos: Repos; worktree: Worktree }> => {
  const { repos } = await makeRepos();
  return { repos, worktree: await addTo(repos, await fetchInto(repos, remote.url), "one") };
};

test("nothing that a repository brings along is run: hooks, filters and drivers of .gitattributes, submodules, which a warning names", async () => {
  const trap = await makeTrap();
  const hook = await readFile(trap.program, "utf8");
  const remote = await makeRemote();
  const commit = await plainGit(remote.work, "rev-parse", "HEAD");
  for (const name of ["a", "b"])
    await plainGit(remote.work, "update-index", "--add", "--cacheinfo", `160000,${commit},${name}`);
  // Not by `commit`, which would remove the submodules that are not there.
  await write(remote.work, {
    ".githooks/pre-commit": hook,
    ".git-template/hooks/post-checkout": hook,
    ".husky/pre-push": hook,
    ".gitattributes": "*.dat filter=evil diff=evil merge=evil\n",
    ".gitconfig": `[filter "evil"]\n\tsmudge = ${trap.program}\n\tclean = ${trap.program}\n\trequired = true\n`,
    "a.dat": "data\n",
    ".gitmodules": `[submodule "a"]\n\tpath = a\n\turl = ext::${trap.program}\n\tupdate = !${trap.program}\n[submodule "b"]\n\tpath = b\n\turl = --upload-pack=${trap.program}\n`,
  });
  await plainGit(remote.work, "add", "--ignore-removal", ".");
  await plainGit(remote.work, "commit", "--quiet", "--message", "x");
  await plainGit(remote.work, "push", "--quiet", remote.url, "HEAD:main");
  const { repos, worktree } = await checkOut(remote);
  expect(await repos.isPushed(worktree, never)).toBe(true);
  expect(await read(worktree.path, "a.dat")).toBe("data\n");
  expect(worktree.warnings).toEqual([
    expect.stringMatching(/^Submodules are not checked out: a, b\. svc run --submodules/),
    expect.stringMatching(/^Filters of \.gitattributes do not run here \(evil\)/),
  ]);
  await wholeLife(repos, worktree);
  expect(trap.sprung()).toBe(false);
  // Its files are saved without its clone as well.
  await write(worktree.path, { "more.txt": "more\n" });
  await rename(join(worktree.path, ".git"), join(worktree.path, "..", "away"));
  await symlink("../away", join(worktree.path, ".git"));
  const { ref, kept } = await repos.salvage(worktree, "without", never);
  expect({ ref, kept }).toEqual({
    ref: "refs/service/salvage/without",
    kept: [expect.stringContaining("leads out of the worktree")],
  });
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
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await write(worktree.path, { "work.txt": "1\n" });
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "show", "--name-only", "--format=")).toBe("work.txt");
  // What the agent writes at the path of such a link is its work and must not be lost.
  await write(worktree.path, { absolute: "2\n" });
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "show", "HEAD:absolute")).toBe("2");
});

test("files in Git LFS stay pointers, with a warning", async () => {
  const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
  const remote = await makeRemote({
    "sub/.gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n",
    "sub/a.bin": pointer,
  });
  const { worktree } = await checkOut(remote);
  expect(await read(worktree.path, "sub/a.bin")).toBe(pointer);
  expect(worktree.warnings).toEqual([expect.stringMatching(/Git LFS .* svc run --lfs/)]);
});

test("a git directory that the agent redirected is not followed", async () => {
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
  await writeFile(join(worktree.gitDir, "commondir"), `${evil}\n`);
  await wholeLife(repos, worktree);
  expect(trap.sprung()).toBe(false);
  expect(await plainGit(remote.url, "log", "-1", "--format=%s", "service/one")).toBe("work");
  expect(await plainGit(evil, "for-each-ref")).toBe("");
});

type Trap = Awaited<ReturnType<typeof makeTrap>>;

const configure = ({ url }: Remote, ...lines: string[]): Promise<void> =>
  appendFile(join(url, "config"), `${lines.join("\n")}\n`);

/** What can make git run a program in a repository that it fetches from or pushes to. */
const traps: [what: string, set: (remote: Remote, trap: Trap) => Promise<unknown>, refusal?: RegExp][] = [
  [
    "hooks, and programs for its uploads, before its collection of garbage and to list what it borrows",
    async (remote, { program }) => {
      const { url, work, commit } = remote;
      for (const count of [1, 2]) {
        await commit({ file: `${count}\n` });
        await plainGit(url, "repack", "-d", "--quiet");
      }
      const hooks = ["pre-receive", "update", "post-receive", "post-update", "proc-receive", "pre-auto-gc"];
      for (const name of [...hooks, "reference-transaction", "push-to-checkout", "post-index-change"])
        await copyFile(program, join(url, "hooks", name));
      await writeFile(join(url, "objects/info/alternates"), `${join(work, ".git/objects")}\n`);
      await configure(
        remote,
        "[receive]",
        "procReceiveRefs = refs/heads/nothing",
        "[gc]",
        "autoPackLimit = 1",
      );
      await configure(remote, "[uploadpack]", `packObjectsHook = ${program}`);
      await configure(remote, "[core]", `alternateRefsCommand = ${program}`);
    },
  ],
  [
    "a hook for references that it wants to receive itself",
    async (remote, { program }) => {
      await copyFile(program, join(remote.url, "hooks/proc-receive"));
      await configure(remote, "[receive]", "procReceiveRefs = refs/heads");
    },
    /cannot find hook 'proc-receive'/,
  ],
  [
    "a directory of hooks",
    async (remote, { program }) => {
      await mkdir(join(remote.url, "elsewhere"));
      await copyFile(program, join(remote.url, "elsewhere/pre-receive"));
      await configure(remote, "[core]", `hooksPath = ${join(remote.url, "elsewhere")}`);
    },
  ],
  [
    "a working tree that follows its branch, with a filter and a file system monitor",
    async (remote, { program }) => {
      const { url, commit } = remote;
      await commit({ ".gitattributes": "* filter=evil\n" });
      await plainGit(url, "clone", "--quiet", url, join(url, "tree"));
      await plainGit(url, "branch", "service/one", "main");
      await plainGit(join(url, "tree"), "read-tree", "main");
      await plainGit(url, "config", "core.bare", "false");
      await configure(remote, "[core]", `worktree = ${join(url, "tree")}`, `fsmonitor = ${program}`);
      await configure(remote, '[filter "evil"]', `clean = ${program}`, `smudge = ${program}`);
      await configure(remote, "[receive]", "denyCurrentBranch = updateInstead");
      await writeFile(join(url, "HEAD"), "ref: refs/heads/service/one\n");
    },
  ],
];

for (const [what, set, refusal] of traps) {
  test(`nothing is run that a local repository names: ${what}`, async () => {
    const trap = await makeTrap();
    const remote = await makeRemote();
    await mkdir(join(remote.url, "hooks"));
    await set(remote, trap);
    const { repos, worktree } = await checkOut(remote);
    await write(worktree.path, { "work.txt": "work\n" });
    await repos.commitAll(worktree, "work", never);
    expect(await repos.push(worktree, never).then(() => "", String)).toMatch(refusal ?? /^$/);
    expect(trap.sprung()).toBe(false);
  });
}

test("objects that a local repository lacks are not brought by a program that it names", async () => {
  const trap = await makeTrap();
  const remote = await makeRemote();
  const { url } = remote;
  await configure(remote, "[core]", "repositoryFormatVersion = 1", "[extensions]", "partialClone = evil");
  const promisor = [`url = ${url}`, "promisor = true", `uploadpack = ${trap.program}`];
  await configure(remote, '[remote "evil"]', ...promisor);
  const blob = await plainGit(url, "rev-parse", "main:README.md");
  await rm(join(url, "objects", blob.slice(0, 2), blob.slice(2)));
  const { repos } = await makeRepos();
  await expect(fetchInto(repos, url)).rejects.toThrow("Could not fetch");
  await write(url, { "objects/pack/pack-1.promisor": "" });
  await expect(repos.checkLocalRepository(url)).rejects.toThrow("is a partial clone");
  expect(trap.sprung()).toBe(false);
});

test("a local repository with hooks in its configuration, which cannot all be turned off, is not pushed to", async () => {
  const remote = await makeRemote();
  await configure(remote, '[hook "any"]', "command = true");
  const { repos, worktree } = await checkOut(remote);
  await expect(repos.push(worktree, never)).rejects.toThrow("has hooks in its configuration");
});
