import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { addTo, fetchInto, makeWorktree, never, plainGit, read, write } from "./repos.fixture.ts";
import { salvageRef, type Repos, type Worktree } from "./repos.ts";

/** What a cleanup does: without force only what is pushed goes, with force it is saved first. */
const cleanUp = async (repos: Repos, worktree: Worktree, force: boolean): Promise<"left" | "removed"> => {
  const pushed = await repos.isPushed(worktree, never);
  if (!pushed && !force) return "left";
  if (!pushed) await repos.salvage(worktree, worktree.worktreeId, never);
  await repos.removeWorktree(worktree, never);
  return "removed";
};

const asAgent = async (cwd: string, ...args: string[]): Promise<string> =>
  plainGit(cwd, "-c", "user.name=agent", "-c", "user.email=agent@localhost", ...args);

const commitFile = async (cwd: string, name: string): Promise<string> => {
  await write(cwd, { [name]: "work\n" });
  await asAgent(cwd, "add", "--all");
  await asAgent(cwd, "commit", "--quiet", "--message", name);
  return asAgent(cwd, "rev-parse", "HEAD");
};

/** A commit on a branch of its own, the first one checked out again. */
const commitAside = async (cwd: string): Promise<string> => {
  await asAgent(cwd, "checkout", "--quiet", "-b", "aside");
  const commit = await commitFile(cwd, "aside.txt");
  await asAgent(cwd, "checkout", "--quiet", "-");
  return commit;
};

const makeRepository = async (path: string): Promise<string> => {
  await mkdir(path, { recursive: true });
  await asAgent(path, "init", "--quiet", "--initial-branch=main");
  await commitFile(path, "first.txt");
  return commitAside(path);
};

const run = promisify(execFile);

/** As docs/worktrees.md tells: a checkout of what was salvaged, with everything unpacked in it. */
const getBack = async ({ commonDir, worktreeId }: Worktree): Promise<string> => {
  const own = await temporaryDirectory();
  await plainGit(own, "init", "--quiet");
  await plainGit(own, "fetch", "--quiet", commonDir, `${salvageRef(worktreeId)}:refs/heads/salvaged`);
  await plainGit(own, "checkout", "--quiet", "salvaged");
  const archive = join(own, ".salvaged/files.tar");
  if (existsSync(archive)) await run("tar", ["-xf", archive], { cwd: own });
  return own;
};

/** The histories in one of the other archives, fetched as the docs tell. */
const getHistory = async (own: string, archive: string, inside: string): Promise<string> => {
  const out = await temporaryDirectory();
  await run("tar", ["-xf", join(own, ".salvaged", archive)], { cwd: out });
  const refs = ["+HEAD:refs/salvaged/HEAD", "+refs/*:refs/salvaged/*"];
  const config = join(out, inside, "config");
  await plainGit(own, "config", "--file", config, "--unset", "core.worktree").catch(() => undefined);
  await plainGit(own, "fetch", "--quiet", join(out, inside), ...refs);
  return plainGit(own, "log", "--format=%H", "--glob=refs/salvaged");
};

test("commits of a repository that an agent made in place of its worktree's own are kept, also of a second one", async () => {
  const { repos, worktree } = await makeWorktree();
  const commits: string[] = [];
  for (const round of ["one", "two"]) {
    await rm(join(worktree.path, ".git"));
    await asAgent(worktree.path, "init", "--quiet");
    await commitFile(worktree.path, "base.txt");
    await asAgent(worktree.path, "checkout", "--quiet", "-b", round);
    commits.push(await commitFile(worktree.path, `${round}.txt`));
    await asAgent(worktree.path, "checkout", "--quiet", "-");
    // As the end of the agent's job does.
    await repos.inspect(worktree, never);
    await rm(join(worktree.path, "base.txt"));
  }
  expect(await cleanUp(repos, worktree, false)).toBe("left");
  expect(await cleanUp(repos, worktree, true)).toBe("removed");
  const own = await getBack(worktree);
  expect(await getHistory(own, "replaced.tar", "one.replaced")).toContain(commits[0]);
  expect(await getHistory(own, "replaced.tar", "one.replaced.2")).toContain(commits[1]);
});

test("the history of a repository inside the worktree is kept, also when its files are pushed with the rest", async () => {
  const { repos, worktree } = await makeWorktree();
  const aside = await makeRepository(join(worktree.path, "deep/nested"));
  const inner = await makeRepository(join(worktree.path, "deep/nested/inner"));
  await repos.commitAll(worktree, "work", never);
  await repos.push(worktree, never);
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("");
  expect(await cleanUp(repos, worktree, false)).toBe("left");
  expect(await cleanUp(repos, worktree, true)).toBe("removed");
  const own = await getBack(worktree);
  expect(await plainGit(join(own, "deep/nested"), "log", "--format=%H", "--all")).toContain(aside);
  expect(await plainGit(join(own, "deep/nested/inner"), "log", "--format=%H", "--all")).toContain(inner);
  expect(await plainGit(join(own, "deep/nested/inner"), "status", "--porcelain")).toBe("");
});

test("a repository without files, one that lost its HEAD, and one with a name that is not UTF-8 are kept", async () => {
  const { repos, worktree } = await makeWorktree();
  const bare = join(worktree.path, "empty/bare");
  await makeRepository(bare);
  for (const name of await readdir(bare)) if (name !== ".git") await rm(join(bare, name));
  const broken = join(worktree.path, "broken");
  const lost = await makeRepository(broken);
  for (const name of [".git/HEAD", "first.txt"]) await rm(join(broken, name));
  const odd = await makeRepository(join(worktree.path, "odd"));
  const name = Buffer.concat([Buffer.from(`${worktree.path}/`), Buffer.of(0x6f, 0xe9)]);
  await rename(join(worktree.path, "odd"), name);
  expect(await cleanUp(repos, worktree, true)).toBe("removed");
  const own = await getBack(worktree);
  expect(existsSync(join(own, "empty/bare/.git/HEAD"))).toBe(true);
  expect(existsSync(join(own, "broken/.git/objects", lost.slice(0, 2), lost.slice(2)))).toBe(true);
  const back = Buffer.concat([Buffer.from(`${own}/`), Buffer.of(0x6f, 0xe9)]);
  await rename(back, join(own, "odd"));
  expect(await plainGit(join(own, "odd"), "log", "--format=%H", "--all")).toContain(odd);
});

/** A worktree with a submodule that the agent checked out. */
const withSubmodule = async () => {
  const made = await makeWorktree();
  const { repos, remote, repo } = made;
  const library = (await makeWorktree({ "lib.txt": "lib\n" })).remote;
  const allowed = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
  await asAgent(remote.work, ...allowed, "add", library.url, "sub");
  await remote.commit({});
  await fetchInto(repos, repo.url);
  const worktree = await addTo(repos, repo, "two");
  await asAgent(worktree.path, ...allowed, "update", "--init");
  return { ...made, worktree, sub: join(worktree.path, "sub") };
};

test("what is changed and committed in a submodule that was checked out is saved by force, and stays without", async () => {
  const { repos, worktree, sub } = await withSubmodule();
  const commit = await commitFile(sub, "committed.txt");
  await write(sub, { "dirty.txt": "work\n" });
  expect(await cleanUp(repos, worktree, false)).toBe("left");
  expect(await cleanUp(repos, worktree, true)).toBe("removed");
  const own = await getBack(worktree);
  expect(await plainGit(own, "ls-files", "sub")).toBe("sub/committed.txt\nsub/dirty.txt\nsub/lib.txt");
  expect(await read(own, "sub/dirty.txt")).toBe("work\n");
  expect(await getHistory(own, "submodules.tar", "modules/sub")).toContain(commit);
});

test("a commit keeps submodules what they are, and tells that what is in them is not in it", async () => {
  const { repos, worktree, sub } = await withSubmodule();
  await write(sub, { "dirty.txt": "work\n" });
  await write(worktree.path, { "a.txt": "1\n", ".GIT/work.txt": "1\n" });
  expect((await repos.inspect(worktree, never)).passedOver.toSorted()).toEqual([".GIT/work.txt", "sub"]);
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "ls-tree", "HEAD", "sub")).toMatch(/^160000 commit/);
  expect(await plainGit(worktree.path, "show", "--format=", "--name-only")).toBe("a.txt");
});

test("a submodule that was not checked out stays what it is in what is salvaged", async () => {
  const { repos, worktree, sub } = await withSubmodule();
  await rm(sub, { recursive: true });
  await mkdir(sub);
  await rm(join(worktree.gitDir, "modules"), { recursive: true });
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await write(worktree.path, { "a.txt": "1\n" });
  const ref = await repos.salvage(worktree, "job", never);
  expect(await plainGit(worktree.path, "diff", "--name-only", "HEAD", String(ref))).toBe("a.txt");
});

test("a commit on no branch outlives the directory that somebody deleted, and so does what is staged", async () => {
  for (const stage of [false, true]) {
    const { repos, worktree } = await makeWorktree();
    if (!stage) await asAgent(worktree.path, "checkout", "--quiet", "--detach");
    await write(worktree.path, { "work.txt": "work\n" });
    await asAgent(worktree.path, "add", "--all");
    if (!stage) await asAgent(worktree.path, "commit", "--quiet", "--message", "work");
    await rm(worktree.path, { recursive: true });
    expect(await cleanUp(repos, worktree, false)).toBe("left");
    expect(await cleanUp(repos, worktree, true)).toBe("removed");
    const log = await plainGit(worktree.commonDir, "log", "--name-only", "-m", salvageRef("one"));
    expect(log).toContain("work.txt");
  }
});

test("an empty commit on no branch is not removed as pushed with the directory gone", async () => {
  const { repos, worktree } = await makeWorktree();
  await asAgent(worktree.path, "checkout", "--quiet", "--detach");
  await asAgent(worktree.path, "commit", "--quiet", "--allow-empty", "--message", "a note");
  await rm(worktree.path, { recursive: true });
  expect(await cleanUp(repos, worktree, false)).toBe("left");
});

test("staged content whose file is gone is saved, also in the middle of a merge, and once only", async () => {
  const { repos, worktree } = await makeWorktree();
  const { path, commonDir } = worktree;
  for (const side of ["ours", "theirs"]) {
    await asAgent(path, "checkout", "--quiet", "-B", side, String(worktree.baseSha));
    await write(path, { "README.md": `${side}\n` });
    await asAgent(path, "commit", "--quiet", "--all", "--message", side);
  }
  await asAgent(path, "merge", "--quiet", "ours").catch(() => undefined);
  expect(await plainGit(path, "status", "--porcelain")).toBe("UU README.md");
  await write(path, { "staged.txt": "staged\n" });
  await plainGit(path, "add", "staged.txt");
  await rm(join(path, "staged.txt"));
  const ref = await repos.salvage(worktree, "one", never);
  const contents = await plainGit(commonDir, "rev-list", "--objects", String(ref));
  expect(contents).toContain("staged.txt");
  const tip = await plainGit(commonDir, "rev-parse", String(ref));
  await repos.salvage(worktree, "one", never);
  expect(await plainGit(commonDir, "rev-parse", String(ref))).toBe(tip);
});

test("a commit that only a ref of the worktree's own leads to is kept", async () => {
  const { repos, worktree } = await makeWorktree();
  const commit = await commitFile(worktree.path, "kept.txt");
  await asAgent(worktree.path, "update-ref", "refs/worktree/keep", "HEAD");
  await asAgent(worktree.path, "reset", "--quiet", "--hard", "HEAD~1");
  expect(await cleanUp(repos, worktree, false)).toBe("left");
  expect(await cleanUp(repos, worktree, true)).toBe("removed");
  expect(await plainGit(worktree.commonDir, "rev-list", salvageRef("one"))).toContain(commit);
});

test.each([".GIT", "git~1"])("files in a directory called %j, which git refuses, are saved", async (name) => {
  const { repos, worktree } = await makeWorktree();
  await write(worktree.path, { [`${name}/work.txt`]: "work\n", "other.txt": "1\n" });
  expect((await repos.inspect(worktree, never)).passedOver).toEqual([`${name}/work.txt`]);
  expect(await cleanUp(repos, worktree, false)).toBe("left");
  expect(await cleanUp(repos, worktree, true)).toBe("removed");
  const own = await getBack(worktree);
  expect(await read(own, name, "work.txt")).toBe("work\n");
  expect(await read(own, "other.txt")).toBe("1\n");
  expect(await read(own, ".salvaged/README.txt")).toContain(`files.tar: ${name}/work.txt`);
});

test("files that lie deeper than a path can be long are saved", async () => {
  const { repos, worktree } = await makeWorktree();
  const part = "d".repeat(200);
  const dig = `for (let i = 0; i < 30; i += 1) { fs.mkdirSync("${part}"); process.chdir("${part}"); } fs.writeFileSync("w.txt", "1");`;
  await run(process.execPath, ["-e", dig], { cwd: worktree.path });
  expect(await cleanUp(repos, worktree, true)).toBe("removed");
  const own = await getBackUnpacked(worktree);
  expect((await run("tar", ["-tf", own])).stdout).toMatch(/\/w\.txt$/m);
});

const getBackUnpacked = async ({ commonDir, worktreeId }: Worktree): Promise<string> => {
  const own = await temporaryDirectory();
  await plainGit(own, "clone", "--quiet", "--no-checkout", commonDir, "clone");
  await plainGit(join(own, "clone"), "fetch", "--quiet", "origin", salvageRef(worktreeId));
  await plainGit(join(own, "clone"), "checkout", "--quiet", "FETCH_HEAD");
  return join(own, "clone/.salvaged/files.tar");
};

test("what cannot be saved keeps the worktree from being removed, with the reason", async () => {
  const { repos, worktree, settings } = await makeWorktree();
  await write(worktree.path, { ".GIT/work.txt": "work\n" });
  // Stands for a file that cannot be read, which root can: a program that fails.
  const bin = await temporaryDirectory();
  await writeFile(join(bin, "tar"), "#!/bin/sh\necho 'work.txt: Cannot read' >&2\nexit 2\n", { mode: 0o755 });
  const { createRepos } = await import("./create.ts");
  const env = { ...process.env, PATH: `${bin}:${String(process.env["PATH"])}` };
  const failing = createRepos({ settings, env });
  await expect(cleanUp(failing, worktree, true)).rejects.toThrow("work.txt: Cannot read");
  expect(await read(worktree.path, ".GIT/work.txt")).toBe("work\n");
  expect(await cleanUp(repos, worktree, true)).toBe("removed");
});

test("a repository that has a folder of the name for what is salvaged keeps it", async () => {
  const { repos, worktree } = await makeWorktree({ ".salvaged/mine.txt": "mine\n" });
  await write(worktree.path, { ".GIT/work.txt": "work\n" });
  const ref = await repos.salvage(worktree, "one", never);
  const names = await plainGit(worktree.commonDir, "ls-tree", "-r", "--name-only", String(ref));
  expect(names.split("\n")).toEqual([
    ".salvaged-2/README.txt",
    ".salvaged-2/files.tar",
    ".salvaged/mine.txt",
  ]);
});

test("nothing of a repository inside the worktree is run or followed", async () => {
  const { repos, worktree, root } = await makeWorktree();
  const nested = join(worktree.path, "nested");
  await makeRepository(nested);
  await write(root, { "secret/file.txt": "secret\n" });
  await writeFile(join(root, "trap"), `#!/bin/sh\ntouch ${root}/sprung\n`, { mode: 0o755 });
  await asAgent(nested, "config", "core.fsmonitor", join(root, "trap"));
  await asAgent(nested, "config", "core.worktree", join(root, "secret"));
  await symlink(join(root, "secret"), join(nested, ".git/link"));
  expect(await cleanUp(repos, worktree, true)).toBe("removed");
  expect(existsSync(join(root, "sprung"))).toBe(false);
  const own = await getBackUnpacked(worktree);
  expect((await run("tar", ["-tf", own])).stdout).not.toContain("link/file.txt");
});
