import { existsSync } from "node:fs";
import { mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import {
  addTo,
  commitFile,
  fetchInto,
  makeRemote,
  makeWorktree,
  never,
  plainGit,
  salvagedRef,
  write,
} from "./repos.fixture.ts";

const run = promisify(execFile);

const asAgent = async (cwd: string, ...args: string[]): Promise<string> =>
  plainGit(cwd, "-c", "user.name=agent", "-c", "user.email=agent@localhost", ...args);

const makeRepository = async (path: string): Promise<string> => {
  await mkdir(path, { recursive: true });
  await asAgent(path, "init", "--quiet", "--initial-branch=main");
  return commitFile(path, "first.txt");
};

test("repositories inside the worktree are named and not committed; all other work is saved", async () => {
  const { repos, worktree } = await makeWorktree({ "README.md": "hello\n", "src/a.txt": "1\n" });
  await makeRepository(join(worktree.path, "vendor/x"));
  await mkdir(join(worktree.path, "empty"));
  await asAgent(join(worktree.path, "empty"), "init", "--quiet");
  // In a directory that the worktree's own repository knows.
  await asAgent(join(worktree.path, "src"), "init", "--quiet");
  await write(worktree.path, { "src/b.txt": "1\n", "c.txt": "1\n" });
  const kept = ["nested repository at empty", "nested repository at src", "nested repository at vendor/x"];
  const state = await repos.inspect(worktree, never);
  expect(state.kept.toSorted()).toEqual(kept);
  expect(await repos.isPushed(worktree, never)).toBe(false);
  const saved = await repos.salvage(worktree, "one", never);
  expect(saved.kept.toSorted()).toEqual(kept);
  expect((await repos.readWorktree("one"))?.kept).toEqual(saved.kept);
  const names = await plainGit(worktree.cacheDir, "ls-tree", "-r", "--name-only", String(saved.ref));
  expect(names).toContain("c.txt");
  expect(names).not.toContain("vendor");
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "ls-tree", "-r", "HEAD")).not.toContain("160000");
});

test("a repository whose name is not ASCII is not committed either", async () => {
  const { repos, worktree } = await makeWorktree();
  await makeRepository(join(worktree.path, "fremdes/größe"));
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "ls-tree", "-r", "HEAD")).not.toContain("160000");
  expect((await repos.inspect(worktree, never)).kept).toEqual(["nested repository at fremdes/größe"]);
});

test("work after an agent's shallow fetch is saved and pushed", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await remote.commit({ "later.txt": "1\n" });
  await plainGit(worktree.path, "fetch", "--quiet", "--depth=1", `file://${remote.url}`, "main");
  const commit = await commitFile(worktree.path, "work.txt");
  const ref = await salvagedRef(repos, worktree, "one", never);
  expect(await plainGit(worktree.cacheDir, "rev-parse", String(ref))).toBe(commit);
  await repos.push(worktree, never);
});

/** The agent goes on from a commit that it fetched without its history, and that the cached clone does not have. */
const workOnShallow = async (
  url: (remote: string) => string,
): Promise<Awaited<ReturnType<typeof makeWorktree>>> => {
  const made = await makeWorktree();
  const { remote, worktree } = made;
  for (const n of [1, 2]) await remote.commit({ "later.txt": `${n}\n` });
  await plainGit(worktree.path, "fetch", "--quiet", "--depth=1", url(remote.url), "main");
  await plainGit(worktree.path, "reset", "--quiet", "--hard", "FETCH_HEAD");
  return made;
};

const byFile = (path: string): string => `file://${path}`;

test.each(["uncommitted", "committed"])(
  "%s work on a shallow history is saved with its history",
  async (how) => {
    const { repos, worktree } = await workOnShallow(byFile);
    if (how === "committed") await commitFile(worktree.path, "work.txt");
    else await write(worktree.path, { "work.txt": "work\n" });
    const { ref, kept } = await repos.salvage(worktree, "one", never);
    expect(kept).toEqual([]);
    expect(await plainGit(worktree.cacheDir, "show", `${ref}:work.txt`)).toBe("work");
    expect(await plainGit(worktree.cacheDir, "rev-list", "--count", String(ref))).toBe("4");
  },
);

test("a branch on a shallow history is saved with its history", async () => {
  const { repos, worktree } = await workOnShallow(byFile);
  const tip = await commitFile(worktree.path, "work.txt");
  await repos.saveBranch(worktree, never);
  expect(await plainGit(worktree.cacheDir, "rev-parse", worktree.branch)).toBe(tip);
});

test("a worktree whose shallow history the remote cannot complete is kept and says why; no ref is told", async () => {
  const other = await makeRemote();
  for (const n of [1, 2]) await other.commit({ "later.txt": `${n}\n` });
  const { repos, worktree } = await workOnShallow(() => byFile(other.url));
  await commitFile(worktree.path, "work.txt");
  const why = "a history that the agent's shallow fetch cut, and that the remote could not complete";
  expect(await repos.salvage(worktree, "one", never)).toEqual({ ref: null, kept: [why] });
  expect((await repos.readWorktree("one"))?.kept).toEqual([why]);
  await expect(repos.saveBranch(worktree, never)).rejects.toThrow(why);
  expect(await plainGit(worktree.cacheDir, "for-each-ref", "refs/service", "refs/heads")).toBe("");
});

test("repositories that git ignores keep nothing", async () => {
  const { repos, worktree } = await makeWorktree({ ".gitignore": "node_modules\n" });
  await makeRepository(join(worktree.path, "node_modules/x"));
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await write(worktree.path, { "a.txt": "1\n" });
  expect(await repos.salvage(worktree, "one", never)).toMatchObject({ kept: [] });
});

test("the reason is removed with its cause", async () => {
  const { repos, worktree } = await makeWorktree();
  await makeRepository(join(worktree.path, "vendor"));
  await repos.salvage(worktree, "one", never);
  expect(await repos.readWorktree("one")).toMatchObject({ kept: ["nested repository at vendor"] });
  await rm(join(worktree.path, "vendor"), { recursive: true });
  await repos.salvage(worktree, "one", never);
  expect(await repos.readWorktree("one")).toMatchObject({ kept: [] });
});

test("a submodule that was checked out keeps the worktree once there is work in it; its new commit is committed", async () => {
  const { repos, remote, repo } = await makeWorktree();
  const library = (await makeWorktree({ "lib.txt": "lib\n" })).remote;
  const allowed = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
  await asAgent(remote.work, ...allowed, "add", library.url, "sub");
  await remote.commit({});
  await fetchInto(repos, repo.url);
  const worktree = await addTo(repos, repo, "two");
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await asAgent(worktree.path, ...allowed, "update", "--init");
  const sub = join(worktree.path, "sub");
  const look = async () => [await repos.isPushed(worktree, never), await repos.unsavable(worktree, never)];
  const work = async (...args: string[]) => asAgent(sub, ...args);
  expect(await look()).toEqual([true, []]);
  expect(await repos.salvage(worktree, "two", never)).toEqual({ ref: null, kept: [] });
  const elsewhere = async () => work("branch", "x", await work("commit-tree", "-m", "x", "HEAD^{tree}"));
  for (const [change, undo] of [
    [() => write(sub, { "new.txt": "1\n" }), () => rm(join(sub, "new.txt"))],
    [() => write(sub, { "lib.txt": "changed\n" }), () => write(sub, { "lib.txt": "lib\n" })],
    [elsewhere, () => work("branch", "--quiet", "-D", "x")],
  ] as const) {
    await change();
    expect(await look()).toEqual([false, ["submodule at sub"]]);
    await undo();
    expect(await look()).toEqual([true, []]);
  }
  const commit = await commitFile(join(worktree.path, "sub"), "committed.txt");
  expect((await repos.inspect(worktree, never)).kept).toEqual(["submodule at sub"]);
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "ls-tree", "HEAD", "sub")).toContain(`160000 commit ${commit}`);
});

test("a commit that only another ref of the worktree names is saved", async () => {
  const { repos, worktree } = await makeWorktree();
  const commit = await commitFile(worktree.path, "kept.txt");
  await asAgent(worktree.path, "update-ref", "refs/worktree/keep", "HEAD");
  await asAgent(worktree.path, "reset", "--quiet", "--hard", "HEAD~1");
  expect(await repos.isPushed(worktree, never)).toBe(false);
  const ref = await salvagedRef(repos, worktree, "one", never);
  expect(await plainGit(worktree.cacheDir, "rev-list", String(ref))).toContain(commit);
});

test.each([".GIT", "git~1"])("a directory called %j, which git refuses, is named", async (name) => {
  const { repos, worktree } = await makeWorktree();
  await write(worktree.path, { [`${name}/work.txt`]: "work\n", "other.txt": "1\n" });
  expect((await repos.inspect(worktree, never)).kept).toEqual([`git does not take ${name}`]);
  expect(await repos.isPushed(worktree, never)).toBe(false);
  const { ref, kept } = await repos.salvage(worktree, "one", never);
  expect(kept).toEqual([`git does not take ${name}`]);
  expect(await plainGit(worktree.cacheDir, "show", `${ref}:other.txt`)).toBe("1");
});

test("files below the path limit are named", async () => {
  const { repos, worktree } = await makeWorktree();
  const part = "d".repeat(200);
  const dig = `for (let i = 0; i < 30; i += 1) { fs.mkdirSync("${part}"); process.chdir("${part}"); } fs.writeFileSync("w.txt", "1");`;
  await run(process.execPath, ["-e", dig], { cwd: worktree.path });
  const { kept } = await repos.salvage(worktree, "one", never);
  expect(kept).toEqual([expect.stringMatching(/^git does not take d{200}/)]);
  await repos.removeWorktree(worktree, never);
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
  await repos.isPushed(worktree, never);
  await repos.commitAll(worktree, "work", never);
  await repos.salvage(worktree, "one", never);
  expect(existsSync(join(root, "sprung"))).toBe(false);
});
