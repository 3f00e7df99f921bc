import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import {
  addTo,
  fetchInto,
  makeRepos,
  makeRemote,
  never,
  plainGit,
  read,
  write,
  type Remote,
  salvagedRef,
} from "./repos.fixture.ts";
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

test("hooks that a repository brings along are not run, wherever it puts them", async () => {
  const trap = await makeTrap();
  const hook = await readFile(trap.program, "utf8");
  const remote = await makeRemote({
    ".githooks/pre-commit": hook,
    ".git-template/hooks/post-checkout": hook,
    ".husky/pre-push": hook,
  });
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
  expect(worktree.warnings).toEqual([
    expect.stringMatching(/^Submodules are not checked out: a, b\. One .*git submodule update --init/),
  ]);
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
  expect(worktree.warnings).toEqual([expect.stringMatching(/Git LFS .* \(svc run --file\)/)]);
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
  await mkdir(join(worktree.gitDir, "objects/info"), { recursive: true });
  await writeFile(join(worktree.gitDir, "objects/info/alternates"), `${evil}/objects\n`);
  await wholeLife(repos, worktree);
  expect(trap.sprung()).toBe(false);
  expect(await plainGit(remote.url, "log", "-1", "--format=%s", "service/one")).toBe("work");
  expect(await plainGit(evil, "for-each-ref")).toBe("");
});

type Trap = Awaited<ReturnType<typeof makeTrap>>;

/** What can make git run a program in a repository that it fetches from or pushes to. */
const traps: [what: string, set: (remote: Remote, trap: Trap) => Promise<unknown>, refusal?: RegExp][] = [
  [
    "hooks",
    async ({ url }, { program }) => {
      const hooks = ["pre-receive", "update", "post-receive", "post-update", "proc-receive"];
      for (const name of [...hooks, "reference-transaction", "push-to-checkout", "post-index-change"])
        await copyFile(program, join(url, "hooks", name));
      await plainGit(url, "config", "receive.procReceiveRefs", "refs/heads/nothing");
    },
  ],
  [
    "a hook for references that it wants to receive itself",
    async ({ url }, { program }) => {
      await copyFile(program, join(url, "hooks/proc-receive"));
      await plainGit(url, "config", "receive.procReceiveRefs", "refs/heads");
    },
    /cannot find hook 'proc-receive'/,
  ],
  [
    "a directory of hooks",
    async ({ url }, { program }) => {
      await mkdir(join(url, "elsewhere"));
      await copyFile(program, join(url, "elsewhere/pre-receive"));
      await plainGit(url, "config", "core.hooksPath", join(url, "elsewhere"));
    },
  ],
  [
    "a program for its uploads",
    ({ url }, { program }) => plainGit(url, "config", "uploadpack.packObjectsHook", program),
  ],
  [
    "a program that lists what it borrows",
    async ({ url, work }, { program }) => {
      await writeFile(join(url, "objects/info/alternates"), `${join(work, ".git/objects")}\n`);
      await plainGit(url, "config", "core.alternateRefsCommand", program);
    },
  ],
  [
    "a working tree that follows its branch, with a filter and a file system monitor",
    async ({ url, commit }, { program }) => {
      await commit({ ".gitattributes": "* filter=evil\n" });
      await plainGit(url, "clone", "--quiet", url, join(url, "tree"));
      await plainGit(url, "branch", "service/one", "main");
      await plainGit(join(url, "tree"), "read-tree", "main");
      for (const [key, value] of [
        ["core.bare", "false"],
        ["core.worktree", join(url, "tree")],
        ["core.fsmonitor", program],
        ["filter.evil.clean", program],
        ["filter.evil.smudge", program],
        ["receive.denyCurrentBranch", "updateInstead"],
      ] as const)
        await plainGit(url, "config", key, value);
      await plainGit(url, "symbolic-ref", "HEAD", "refs/heads/service/one");
    },
    /branch is currently checked out/,
  ],
  [
    "a program before its collection of garbage",
    async ({ url, commit }, { program }) => {
      for (const count of [1, 2]) {
        await commit({ file: `${count}\n` });
        await plainGit(url, "repack", "-d", "--quiet");
      }
      await plainGit(url, "config", "gc.autoPackLimit", "1");
      await copyFile(program, join(url, "hooks/pre-auto-gc"));
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
  const { url } = await makeRemote();
  for (const [key, value] of [
    ["extensions.partialClone", "evil"],
    ["core.repositoryFormatVersion", "1"],
    ["remote.evil.url", url],
    ["remote.evil.promisor", "true"],
    ["remote.evil.uploadpack", trap.program],
  ] as const)
    await plainGit(url, "config", key, value);
  const blob = await plainGit(url, "rev-parse", "main:README.md");
  await rm(join(url, "objects", blob.slice(0, 2), blob.slice(2)));
  const { repos } = await makeRepos();
  await expect(fetchInto(repos, url)).rejects.toThrow("Could not fetch");
  expect(trap.sprung()).toBe(false);
});

test("a local repository with hooks in its configuration, which cannot all be turned off, is not pushed to", async () => {
  const remote = await makeRemote();
  await plainGit(remote.url, "config", "hook.any.command", "true");
  const { repos, worktree } = await checkOut(remote);
  await expect(repos.push(worktree, never)).rejects.toThrow("has hooks in its configuration");
});
