import { randomBytes } from "node:crypto";
import { mkdir, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { commitFile, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { fetchInto, makeRemote, makeRepos, makeWorktree } from "./repos.fixture.ts";
import { savedDirOf, type Worktree } from "./repos.ts";

/** Writes an object as no git of today makes it. */
const writeObject = async (
  path: string,
  type: "commit" | "tree",
  bytes: string | Buffer,
): Promise<string> => {
  await writeFile(join(path, ".git/raw"), bytes);
  return plainGit(path, "hash-object", "-t", type, "--literally", "-w", ".git/raw");
};

/** A merge of commits that old tools made. Resolves to the last of these. */
const mergeOldHistory = async ({ path }: Worktree): Promise<string> => {
  const blob = await plainGit(path, "rev-parse", "HEAD:README.md");
  const entry = Buffer.concat([Buffer.from("100644 old.txt\0"), Buffer.from(blob, "hex")]);
  const inner = await writeObject(path, "tree", entry);
  const padded = Buffer.concat([Buffer.from("040000 dir\0"), Buffer.from(inner, "hex")]);
  let tip = await writeObject(path, "tree", padded);
  const tree = tip;
  for (const [nth, author] of [
    "a <a@example.org> 1 +051800",
    "a<a@example.org> 1 +0000",
    "a <a@example.org>1 +0000",
    "a 1 +0000",
    "<a@example.org> 1 +0000",
    "a <a@example.org> 01 +0000",
    "a <a@example.org> 99999999999999999999 +0000",
  ].entries()) {
    const parent = nth === 0 ? "" : `parent ${tip}\n`;
    const text = `tree ${tree}\n${parent}author ${author}\ncommitter a <a@example.org> 1 +0000\n\nold\0\n`;
    tip = await writeObject(path, "commit", text);
  }
  const merged = ["-c", "user.name=a", "-c", "user.email=a@b", "commit-tree", "-p", "HEAD", "-p", tip];
  const merge = await plainGit(path, ...merged, "-m", "merge", "HEAD^{tree}");
  await plainGit(path, "reset", "--quiet", "--hard", merge);
  return tip;
};

test("a history with the faults of old tools is committed, saved and pushed", async () => {
  const { repos, worktree, remote } = await makeWorktree();
  const old = await mergeOldHistory(worktree);
  await write(worktree.path, { "work.txt": "work\n" });
  expect((await repos.salvage(worktree, "job", never)).kept).toEqual([]);
  await repos.commitAll(worktree, "work", never);
  await repos.push(worktree, never);
  expect(await plainGit(remote.url, "rev-list", "service/one")).toContain(old);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "rev-list", "refs/service/salvage/job")).toContain(
    old,
  );
});

const removeFirstVersion = async ({ path, gitDir }: Worktree): Promise<void> => {
  const blob = await plainGit(path, "rev-parse", "HEAD^:work.txt");
  await rm(join(gitDir, "objects", blob.slice(0, 2), blob.slice(2)));
};

test.each([
  ["lacks an object", 1e9, "first\n", removeFirstVersion],
  ["is more than SERVICE_MAX_REPO_BYTES", 100_000, randomBytes(200_000).toString("base64"), async () => {}],
])("of a history that %s the job fails with what git says, and the files are saved", async (...row) => {
  const [, maxRepoBytes, first, plant] = row;
  const { settings, worktree } = await makeWorktree();
  const { repos } = await makeRepos({ ...settings, maxRepoBytes });
  await write(worktree.path, { "work.txt": first });
  await commitFile(worktree.path, "other.txt");
  await write(worktree.path, { "work.txt": "last\n" });
  await commitFile(worktree.path, "other.txt");
  await plant(worktree);
  const why = /^git cannot take what is in it \(git (pack-objects|index-pack) ended/;
  await expect(repos.commitAll(worktree, "all", never)).rejects.toThrow(why);
  await expect(repos.push(worktree, never)).rejects.toThrow(why);
  expect(await repos.isPushed(worktree, never)).toBe(false);
  const { ref, kept } = await repos.salvage(worktree, "job", never);
  expect(kept).toEqual([expect.stringMatching(why)]);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "show", `${ref}:work.txt`)).toBe("last");
});

test("git outside borrows from no agent, and what git made behind the wall lies there once", async () => {
  const { repos, worktree } = await makeWorktree();
  const tip = await commitFile(worktree.path, "work.txt");
  await write(worktree.path, { "more.txt": "more\n" });
  await repos.inspect(worktree, never);
  expect(await read(worktree.ownDir, "objects/info/alternates")).toBe(`${worktree.cacheDir}/objects\n`);
  expect(await plainGit(worktree.ownDir, "cat-file", "-t", tip)).toBe("commit");
  expect(await readdir(join(worktree.ownDir, "scratch/objects"))).toEqual([]);
});

test("a look enters the wall seven times, one at what is known already six times, and a push of it not at all", async () => {
  let entries = 0;
  const confine = async () => {
    entries += 1;
    return null;
  };
  const { repos, worktree } = await makeWorktree({ "README.md": "hello\n" }, { confine });
  const counted = async (action: Promise<unknown>): Promise<number> => {
    entries = 0;
    await action;
    return entries;
  };
  await write(worktree.path, { "work.txt": "work\n" });
  expect(await counted(repos.inspect(worktree, never))).toBe(7);
  expect(await counted(repos.commitAll(worktree, "work", never))).toBe(6);
  expect(await counted(repos.push(worktree, never))).toBe(0);
  expect(await counted(repos.isPushed(worktree, never))).toBe(6);
});

test("the commit of a submodule is its own: not one that a link or a .git file leads to", async () => {
  const { repos, worktree } = await makeWorktree();
  const { path } = worktree;
  const secret = await makeRemote({ "secret.txt": "canary\n" });
  const other = (await fetchInto(repos, secret.url)).gitDir;
  const tip = await plainGit(other, "rev-parse", "refs/remotes/origin/main");
  const known = "1".repeat(40);
  for (const name of ["link", "file", "ref", "honest"]) {
    await plainGit("/", "init", "--quiet", "--initial-branch=main", join(path, name));
    await plainGit(path, "update-index", "--add", "--cacheinfo", `160000,${known},${name}`);
  }
  await rm(join(path, "link/.git/HEAD"));
  await symlink(join(other, "refs/remotes/origin/main"), join(path, "link/.git/HEAD"));
  await rm(join(path, "file/.git"), { recursive: true });
  await writeFile(join(path, "file/.git"), `gitdir: ${other}\n`);
  await mkdir(join(path, "ref/.git/refs/heads"), { recursive: true });
  await symlink(join(other, "refs/remotes/origin/main"), join(path, "ref/.git/refs/heads/main"));
  const honest = await commitFile(join(path, "honest"), "x.txt");
  await repos.commitAll(worktree, "all", never);
  const listed = await plainGit(path, "ls-tree", "HEAD", "link", "file", "ref", "honest");
  expect(listed).not.toContain(tip);
  expect(listed.match(/[0-9a-f]{40}/g)).toEqual([known, honest, known, known]);
});
