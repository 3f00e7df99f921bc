import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { execFile, spawnSync } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { commitFile, never, plainGit, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRemote, makeRepos, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { savedDirOf } from "./repos.ts";

const run = promisify(execFile);

const asAgent = async (cwd: string, ...args: string[]): Promise<string> =>
  plainGit(cwd, "-c", "user.name=agent", "-c", "user.email=agent@localhost", ...args);

const makeRepository = async (path: string): Promise<string> => {
  await mkdir(path, { recursive: true });
  await asAgent(path, "init", "--quiet", "--initial-branch=main");
  return commitFile(path, "first.txt");
};

test("repositories inside the worktree are named and not committed, and nothing of theirs is run or followed; all other work is saved", async () => {
  const { repos, worktree, root } = await makeWorktree({
    ".gitignore": "node_modules\n",
    "src/a.txt": "1\n",
  });
  const { path } = worktree;
  // One that git ignores keeps nothing.
  await makeRepository(join(path, "node_modules/x"));
  expect(await repos.isPushed(worktree, never)).toBe(true);
  const foreign = join(path, "fremdes/größe");
  await makeRepository(foreign);
  await write(root, { "secret/file.txt": "secret\n" });
  await writeFile(join(root, "trap"), `#!/bin/sh\ntouch ${root}/sprung\n`, { mode: 0o755 });
  await asAgent(foreign, "config", "core.fsmonitor", join(root, "trap"));
  await asAgent(foreign, "config", "core.worktree", join(root, "secret"));
  await symlink(join(root, "secret"), join(foreign, ".git/link"));
  await mkdir(join(path, "empty"));
  await asAgent(join(path, "empty"), "init", "--quiet");
  // In a directory that the worktree's own repository knows.
  await asAgent(join(path, "src"), "init", "--quiet");
  await write(path, { "src/b.txt": "1\n", "c.txt": "1\n" });
  const kept = ["empty", "fremdes/größe", "src"].map((name) => `nested repository at ${name}`);
  expect((await repos.inspect(worktree, never)).kept.toSorted()).toEqual(kept);
  expect(await repos.isPushed(worktree, never)).toBe(false);
  const saved = await repos.salvage(worktree, "one", never);
  expect(saved.kept.toSorted()).toEqual(kept);
  expect((await repos.readWorktree("one"))?.kept).toEqual(saved.kept);
  const names = await plainGit(
    savedDirOf(worktree.cacheDir),
    "ls-tree",
    "-r",
    "--name-only",
    String(saved.ref),
  );
  expect(names).toContain("c.txt");
  expect(names).not.toContain("fremdes");
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(path, "ls-tree", "-r", "HEAD")).not.toContain("160000");
  expect(existsSync(join(root, "sprung"))).toBe(false);
  // The reason is removed with its cause.
  for (const name of ["empty", "fremdes", "src/.git"]) await rm(join(path, name), { recursive: true });
  await repos.salvage(worktree, "one", never);
  expect(await repos.readWorktree("one")).toMatchObject({ kept: [] });
});

test("work after an agent's shallow fetch is saved and pushed", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await remote.commit({ "later.txt": "1\n" });
  await plainGit(worktree.path, "fetch", "--quiet", "--depth=1", `file://${remote.url}`, "main");
  const commit = await commitFile(worktree.path, "work.txt");
  const ref = await salvagedRef(repos, worktree, "one", never);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "rev-parse", String(ref))).toBe(commit);
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

test("work on a shallow history, committed or not, is saved with its history", async () => {
  const { repos, worktree } = await workOnShallow(byFile);
  await commitFile(worktree.path, "work.txt");
  await write(worktree.path, { "more.txt": "more\n" });
  const { ref, kept } = await repos.salvage(worktree, "one", never);
  expect(kept).toEqual([]);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "show", `${ref}:work.txt`, `${ref}:more.txt`)).toBe(
    "work\nmore",
  );
  expect(await plainGit(savedDirOf(worktree.cacheDir), "rev-list", "--count", String(ref))).toBe("5");
});

test("a branch on a shallow history is saved with its history", async () => {
  const { repos, worktree } = await workOnShallow(byFile);
  const tip = await commitFile(worktree.path, "work.txt");
  await repos.saveBranch(worktree, never);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "rev-parse", worktree.branch)).toBe(tip);
});

test("of a worktree whose shallow history the remote cannot complete the files are saved; it is kept and says why", async () => {
  const other = await makeRemote();
  for (const n of [1, 2]) await other.commit({ "later.txt": `${n}\n` });
  const { repos, worktree } = await workOnShallow(() => byFile(other.url));
  await commitFile(worktree.path, "work.txt");
  const why = "a history that the agent's shallow fetch cut, and that the remote could not complete";
  const { ref, kept } = await repos.salvage(worktree, "one", never);
  expect(kept).toEqual([why]);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "show", `${ref}:work.txt`)).toBe("work");
  expect((await repos.readWorktree("one"))?.kept).toEqual([why]);
  await expect(repos.saveBranch(worktree, never)).rejects.toThrow(why);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "for-each-ref", "refs/heads")).toBe("");
});

test("a submodule that was checked out keeps the worktree once there is work in it; its new commit is committed", async () => {
  const { repos, remote, repo } = await makeWorktree();
  const library = await makeRemote({ "lib.txt": "lib\n" });
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
  }
  expect(await look()).toEqual([true, []]);
  const commit = await commitFile(join(worktree.path, "sub"), "committed.txt");
  expect((await repos.inspect(worktree, never)).kept).toEqual(["submodule at sub"]);
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "ls-tree", "HEAD", "sub")).toContain(`160000 commit ${commit}`);
});

/** A worktree whose agent has checked out a submodule at `sub`, with the git directory of that. */
const withSubmodule = async () => {
  const { repos, remote, repo, root } = await makeWorktree();
  const library = await makeRemote({ "lib.txt": "lib\n" });
  const allowed = ["-c", "protocol.file.allow=always", "submodule", "--quiet"];
  await asAgent(remote.work, ...allowed, "add", library.url, "sub");
  await remote.commit({});
  await fetchInto(repos, repo.url);
  const worktree = await addTo(repos, repo, "two");
  await asAgent(worktree.path, ...allowed, "update", "--init");
  return { repos, root, worktree, gitDir: join(worktree.gitDir, "modules/sub") };
};

test("logs of a submodule that an agent wrote do not hold the service up", async () => {
  const { repos, worktree, gitDir } = await withSubmodule();
  await writeFile(join(gitDir, "logs/HEAD"), `${"\tclone: \tclone: x\n".repeat(30)}bad\n`);
  const before = process.cpuUsage();
  expect(await repos.unsavable(worktree, never)).toEqual(["submodule at sub"]);
  expect(process.cpuUsage(before).user / 1e6).toBeLessThan(3);
});

test.each(["logs", "HEAD", "logs/HEAD"])("%s of a submodule is not read where a link leads", async (name) => {
  const { repos, root, worktree, gitDir } = await withSubmodule();
  expect(await repos.unsavable(worktree, never)).toEqual([]);
  await rename(join(gitDir, name), join(root, "elsewhere"));
  await symlink(join(root, "elsewhere"), join(gitDir, name));
  expect(await repos.unsavable(worktree, never)).toEqual(["submodule at sub"]);
});

test("directories whose names git refuses are named", async () => {
  const { repos, worktree } = await makeWorktree();
  await write(worktree.path, { ".GIT/work.txt": "1\n", "git~1/work.txt": "1\n", "other.txt": "1\n" });
  const refused = ["git does not take .GIT", "git does not take git~1"];
  expect(await repos.isPushed(worktree, never)).toBe(false);
  const { ref, kept } = await repos.salvage(worktree, "one", never);
  expect(kept.toSorted()).toEqual(refused);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "show", `${ref}:other.txt`)).toBe("1");
});

test("what one save adds is bounded in sum: the largest files stay out of it and are named", async () => {
  const { repos, worktree } = await makeWorktree({ "old.bin": "old\n" });
  const { path } = worktree;
  await write(path, { "small.txt": "1\n" });
  await run("truncate", ["-s", "1100M", join(path, "sparse.bin"), join(path, "old.bin")]);
  const beyond = (name: string) => `file beyond SERVICE_MAX_REPO_BYTES or 1 GiB of new files: ${name}`;
  const { paths, kept } = await repos.inspect(worktree, never);
  expect({ paths, kept: kept.toSorted() }).toEqual({
    paths: ["small.txt"],
    kept: ["old.bin", "sparse.bin"].map(beyond),
  });
  expect(await repos.isPushed(worktree, never)).toBe(false);
  // Several that are not too large by themselves.
  const few = await makeRepos({ maxRepoBytes: 200_000 });
  const remote = await makeRemote({ "there.bin": "x".repeat(150_000) });
  const other = await addTo(few.repos, await fetchInto(few.repos, remote.url), "few");
  const sizes = [70_000, 71_000, 72_000];
  await write(other.path, Object.fromEntries(sizes.map((size) => [`${size}.txt`, "y".repeat(size)])));
  expect(await few.repos.inspect(other, never)).toMatchObject({
    paths: ["70000.txt", "71000.txt"],
    kept: [beyond("72000.txt")],
  });
  const small = Array.from({ length: 41 }, (_, nth) => [`${nth}.dat`, "z".repeat(5000)]);
  await write(other.path, Object.fromEntries(small));
  expect((await few.repos.inspect(other, never)).kept).toHaveLength(4);
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

test("work beside more refs than a command takes as arguments is saved, and what was fetched of others is none of it", async () => {
  const { repos, worktree } = await makeWorktree();
  const { path, gitDir, cacheDir } = worktree;
  const base = await plainGit(path, "rev-parse", "HEAD");
  const commits = (kind: string, count: number): string =>
    Array.from(
      { length: count },
      (_, n) =>
        `commit refs/${kind}-${n}\ncommitter a <a@localhost> ${1_700_000_000 + n} +0000\ndata 1\np\nfrom ${base}\nM 100644 inline ${kind}\ndata 5\n${String(n).padStart(5, "0")}\n\n`,
    ).join("");
  const made = ["heads/own", "pull/1", "merge-requests/1", "changes/1", "remotes/upstream/x"];
  const input = made.map((kind) => commits(kind, kind === "heads/own" ? 1050 : 5)).join("");
  spawnSync("git", ["-C", gitDir, "fast-import", "--quiet"], { input });
  await write(path, { "work.txt": "done\n" });
  const saved = savedDirOf(cacheDir);
  const { ref, kept } = await repos.salvage(worktree, "one", never);
  expect(kept).toEqual([]);
  const isSaved = (name: string): boolean =>
    spawnSync("git", [
      "-C",
      saved,
      "cat-file",
      "-e",
      spawnSync("git", ["-C", gitDir, "rev-parse", name], { encoding: "utf8" }).stdout.trim(),
    ]).status === 0;
  const own = ["refs/heads/own-0", "refs/heads/own-1049"];
  expect(own.map(isSaved)).toEqual([true, true]);
  expect(made.slice(1).map((kind) => isSaved(`refs/${kind}-0`))).toEqual([false, false, false, false]);
  expect(Number(await plainGit(saved, "rev-list", "--count", String(ref), `^${base}`))).toBeGreaterThan(1050);
  expect(await plainGit(saved, "show", `${ref}:work.txt`)).toBe("done");
  expect(await repos.commitAll(worktree, "work", never)).toMatch(/^[0-9a-f]{40}$/);
});

test("an index of more than 64 MiB is git's to read", async () => {
  const { repos, worktree } = await makeWorktree();
  const file = join(worktree.gitDir, "index");
  const index = await readFile(file);
  // An extension that git does not know, and skips.
  const extension = Buffer.alloc(8 + 65 * 2 ** 20);
  extension.write("TEST");
  extension.writeUInt32BE(65 * 2 ** 20, 4);
  await writeFile(file, Buffer.concat([index.subarray(0, -20), extension, Buffer.alloc(20)]));
  await write(worktree.path, { "README.md": "changed\n" });
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: true, paths: ["README.md"], kept: [] });
  expect(await repos.commitAll(worktree, "work", never)).toMatch(/^[0-9a-f]{40}$/);
});
