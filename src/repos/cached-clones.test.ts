import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, rm, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { diskUsage } from "../lib/disk-usage.ts";
import { never, plainGit, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, makeRemote, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { canonicalConfig, urlOfConfig } from "./git-directory.ts";
import { savedDirOf } from "./repos.ts";

test("reading a worktree reports its state on disk and changes nothing", async () => {
  const { repos, worktree } = await makeWorktree();
  expect(await repos.readWorktree("one")).toEqual({
    worktree,
    ready: true,
    instance: "pod",
    kept: [],
    ignored: [],
    isThrowaway: false,
    directoryExists: true,
    changed: expect.any(String) as string,
    since: expect.any(Date) as Date,
  });
  await writeFile(join(worktree.gitDir, "index.lock"), "");
  await repos.readWorktree("one");
  expect((await stat(join(worktree.gitDir, "index.lock"))).isFile()).toBe(true);
  await rm(worktree.path, { recursive: true });
  expect(await repos.readWorktree("one")).toMatchObject({ directoryExists: false });
  for (const id of ["none", "", "..", "a/b"]) expect(await repos.readWorktree(id)).toBeNull();
});

test("a worktree's path follows from its id, and cannot lead outside the root", async () => {
  const { repos, settings, repo } = await makeWorktree();
  expect(repos.worktreePath("two")).toBe(join(settings.worktreeRoot, "two"));
  expect(() => repos.worktreePath("../two")).toThrow("is no worktree id");
  expect(repos.keyOf(repo.url)).toBe(repo.key);
});

test("a worktree's size leaves out the directories that the operator names", async () => {
  const remote = await makeRemote();
  const { repos } = await makeRepos({ worktreeSizeExclude: ["node_modules"] });
  const worktree = await addTo(repos, await fetchInto(repos, remote.url), "one");
  const before = await repos.worktreeSize(worktree, never);
  await mkdir(join(worktree.path, "node_modules"));
  await writeFile(join(worktree.path, "node_modules/x"), Buffer.alloc(100_000, 1));
  expect(await repos.worktreeSize(worktree, never)).toBe(before);
  await write(worktree.path, { "a.txt": "x".repeat(100_000) });
  expect(await repos.worktreeSize(worktree, never)).toBeGreaterThanOrEqual(before + 100_000);
  await rm(worktree.path, { recursive: true });
  const beside = await diskUsage(worktree.ownDir, { exclude: [], signal: never });
  expect(await repos.worktreeSize(worktree, never)).toBe(beside);
});

test("every cached clone is listed with its URL and its size, and nothing else is", async () => {
  const { repos, settings, repo } = await makeWorktree();
  const other = await fetchInto(repos, (await makeRemote()).url);
  for (const name of ["foreign", "0123456789ab"]) await mkdir(join(settings.reposRoot, name));
  const expected = await Promise.all(
    [repo, other].map(async ({ key, url }) => ({
      key,
      url,
      bytes: await diskUsage(join(settings.reposRoot, key), { exclude: [], signal: never }),
      damaged: [],
    })),
  );
  const byKey = (a: { key: string }, b: { key: string }): number => (a.key < b.key ? -1 : 1);
  expect(await repos.cacheUsage(never)).toEqual(expected.toSorted(byKey));
  await plainGit(repo.gitDir, "config", "remote.origin.url", "https://example.org/evil");
  expect((await repos.cacheUsage(never)).find(({ key }) => key === repo.key)?.url).toBe("");
  const fresh = await makeRepos();
  expect(await fresh.repos.cacheUsage(never)).toEqual([]);
});

test.each(["https://host/a/b.git", 'file:///with "quotes" and \\ and ü'])(
  "the URL %s is read from a configuration as it was written",
  (url) => {
    const author = { gitAuthorName: 'N "x"', gitAuthorEmail: "e" };
    expect(urlOfConfig(canonicalConfig(author, { url, bare: true }))).toBe(url);
    expect(urlOfConfig(canonicalConfig(author, { url: "", bare: true }))).toBeNull();
  },
);

test("salvage refs and job branches are deleted when their last commit is too old, and nothing else", async () => {
  const { repos, repo, worktree } = await makeWorktree();
  await write(worktree.path, { "a.txt": "1\n" });
  const ref = String(await salvagedRef(repos, worktree, "one", never));
  const saved = savedDirOf(repo.gitDir);
  const tip = await plainGit(saved, "rev-parse", ref);
  await plainGit(saved, "update-ref", "refs/heads/service/done", tip);
  await plainGit(saved, "update-ref", "refs/heads/fix/dates", tip);
  const refs = (): Promise<string> => plainGit(saved, "for-each-ref", "--format=%(refname)");
  const all = await refs();
  expect(await repos.expireRefs(new Date(Date.now() - 60_000), never)).toBe(0);
  expect(await refs()).toBe(all);
  expect(await repos.expireRefs(new Date(Date.now() + 60_000), never)).toBe(3);
  expect(await refs()).toBe(`refs/bases/${worktree.baseSha}`);
  // The worktree borrows nothing that was deleted.
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/one\n?? a.txt");
});

test("work with old dates is kept as long as other work, from when it was saved", async () => {
  const { repos, repo, worktree } = await makeWorktree();
  const old = [
    "-c",
    "user.name=a",
    "-c",
    "user.email=a@b",
    "commit",
    "--quiet",
    "--allow-empty",
    "--message=old",
  ];
  await plainGit(worktree.path, ...old);
  const dated = `${await plainGit(worktree.path, "cat-file", "commit", "HEAD")}\n`.replaceAll(
    /> \d+ /g,
    "> 1546300800 ",
  );
  await write(worktree.path, { "../dated": dated });
  const commit = await plainGit(worktree.path, "hash-object", "-t", "commit", "-w", "../dated");
  await plainGit(worktree.path, "reset", "--quiet", "--hard", commit);
  expect(await salvagedRef(repos, worktree, "one", never)).toBe("refs/service/salvage/one");
  await repos.saveBranch(worktree, never);
  const own = ["for-each-ref", "--format=%(refname)", "refs/heads", "refs/service"];
  const saved = "refs/heads/service/one\nrefs/service/salvage/one";
  const dir = savedDirOf(repo.gitDir);
  await plainGit(dir, "pack-refs", "--all");
  expect(await repos.expireRefs(new Date(Date.now() - 60_000), never)).toBe(0);
  expect(await plainGit(dir, ...own)).toBe(saved);
  expect(await repos.expireRefs(new Date(Date.now() + 60_000), never)).toBe(2);
  expect(await plainGit(dir, ...own)).toBe("");
});

/** Makes the branch a commit of ten trees in each of ten trees and so on: 10^10 times the content of the innermost. */
const nest = async (url: string, branch: string, innermost: string): Promise<void> => {
  let tree = innermost;
  for (let level = 0; level < 10; level += 1) {
    const input = Array.from({ length: 10 }, (_, index) => `040000 tree ${tree}\td${index}\n`).join("");
    tree = spawnSync("git", ["mktree"], { cwd: url, input, encoding: "utf8" }).stdout.trim();
  }
  const who = ["-c", "user.name=a", "-c", "user.email=a@example.org"];
  const commit = await plainGit(url, ...who, "commit-tree", "-m", "x", tree);
  await plainGit(url, "update-ref", `refs/heads/${branch}`, commit);
};

test("a tree of 10^10 files, or empty directories, made of shared subtrees is refused before any of it is checked out", async () => {
  const { url } = await makeRemote();
  await nest(url, "empty", spawnSync("git", ["mktree"], { cwd: url, input: "" }).stdout.toString().trim());
  await nest(url, "main", await plainGit(url, "rev-parse", "main^{tree}"));
  const { repos, settings } = await makeRepos({ gitTimeout: 20, maxRepoFiles: 20_000 });
  const repo = await fetchInto(repos, url);
  for (const baseRef of ["main", "empty"]) {
    const before = process.memoryUsage.rss();
    await expect(addTo(repos, repo, "one", { baseRef })).rejects.toMatchObject({
      reason: "worktree_failed",
      retryable: false,
      message: `The repository ${url} has more than 20000 files and directories; raise SERVICE_MAX_REPO_FILES if it is to be checked out.`,
    });
    expect(process.memoryUsage.rss() - before).toBeLessThan(100_000_000);
    expect(existsSync(join(settings.worktreeRoot, "one"))).toBe(false);
  }
});

test("files with more bytes than a checkout may have are refused, also on the branch of a worktree that is made again", async () => {
  const remote = await makeRemote({ "large.txt": "0".repeat(2000) });
  const limited = await makeRepos({ maxRepoBytes: 1999 });
  const repo = await fetchInto(limited.repos, remote.url);
  const refusal = "has more than 1999 bytes of files; raise SERVICE_MAX_REPO_BYTES";
  await expect(addTo(limited.repos, repo, "one")).rejects.toThrow(refusal);
  const unlimited = await makeRepos({ ...limited.settings, maxRepoBytes: 2000 });
  const two = await addTo(unlimited.repos, repo, "two");
  await unlimited.repos.saveBranch(two, never);
  await rm(two.path, { recursive: true });
  await expect(addTo(limited.repos, repo, "two")).rejects.toThrow(refusal);
  expect(existsSync(join((await addTo(unlimited.repos, repo, "one")).path, "large.txt"))).toBe(true);
});
