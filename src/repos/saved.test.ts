import { execFile } from "node:child_process";
import { readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { savedWork } from "../view/saved-work.ts";
import { commitFile, inside, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { borrowedBy, savedDirOf, type Worktree } from "./repos.ts";
import { type WallMode, walls } from "./wall.fixture.ts";

type Made = Awaited<ReturnType<typeof makeWorktree>>;

const listing = ["git", "cat-file", "--batch-all-objects", "--batch-check=%(objectname)"];

/** What an agent finds in all objects that its clone reads. */
const objectsOf = async (worktree: Worktree): Promise<string[]> =>
  (await inside(worktree, ...listing)).trim().split("\n");

const refsIn = (gitDir: string): Promise<string> => plainGit(gitDir, "for-each-ref", "--format=%(refname)");

/** Saves a file of a worktree. Resolves to the blob. */
const saveFile = async (
  { repos }: Pick<Made, "repos">,
  worktree: Worktree,
  text: string,
): Promise<string> => {
  await write(worktree.path, { "work.txt": text });
  await salvagedRef(repos, worktree, worktree.worktreeId, never);
  const ref = `refs/service/salvage/${worktree.worktreeId}`;
  return plainGit(savedDirOf(worktree.cacheDir), "rev-parse", `${ref}:work.txt`);
};

const expectWhole = async (gitDir: string, text: string, ref = "refs/service/salvage/one"): Promise<void> => {
  expect(await plainGit(gitDir, "show", `${ref}:work.txt`)).toBe(text);
  await plainGit(gitDir, "fsck", "--connectivity-only", "--no-dangling");
};

test.each(["bwrap", "landlock", "off"] as WallMode[])(
  "no agent has objects of another's saved work, also by naming its id: %s",
  async (mode) => {
    const made = await makeWorktree({ "README.md": "hello\n" }, { confine: walls[mode] });
    const { repos, repo, worktree } = made;
    await commitFile(worktree.path, "committed.txt");
    await repos.saveBranch(worktree, never);
    const blob = await saveFile(made, worktree, "PRIVATE\n");
    const saved = savedDirOf(repo.gitDir);
    const commit = await plainGit(saved, "rev-parse", "refs/service/salvage/one");
    expect(await refsIn(repo.gitDir)).toBe("refs/remotes/origin/main");
    expect(await refsIn(saved)).toContain("refs/heads/service/one\nrefs/service/salvage/one");
    const other = await addTo(repos, repo, "two");
    expect(await objectsOf(other)).not.toContain(blob);
    for (const name of ["refs/heads/stolen", "refs/heads/service/two", "refs/stash", "HEAD"]) {
      await write(other.path, { "mine.txt": name, [`.git/${name}`]: `${commit}\n` });
      await repos.inspect(other, never);
      await repos.salvage(other, "two", never);
    }
    await addTo(repos, repo, "two");
    expect(await objectsOf(other)).not.toContain(blob);
    const stolen = plainGit(saved, "merge-base", "--is-ancestor", commit, "refs/service/salvage/two");
    await expect(stolen).rejects.toThrow("Command failed");
  },
);

test("jobs without a repository lend each other nothing; one that goes on has what was saved of it", async () => {
  const { repos } = await makeRepos();
  const one = await addTo(repos, null, "one", { baseRef: "" });
  const blob = await saveFile({ repos }, one, "PRIVATE\n");
  await commitFile(one.path, "committed.txt");
  await repos.saveBranch(one, never);
  const two = await addTo(repos, null, "two", { baseRef: "" });
  expect(borrowedBy(two)).toEqual([`${two.ownDir}/objects`]);
  await write(two.path, { "other.txt": "1\n" });
  await repos.salvage(two, "two", never);
  expect(await objectsOf(two)).not.toContain(blob);
  await rm(one.path, { recursive: true });
  const again = await addTo(repos, null, "one", { baseRef: "" });
  expect(await read(again.path, "committed.txt")).toBe("work\n");
  await expect(objectsOf(again)).resolves.toContain(blob);
});

test("a worktree that is made again from its saved branch has that branch's objects and no others", async () => {
  const made = await makeWorktree();
  const { repos, repo, worktree } = made;
  const tip = await commitFile(worktree.path, "committed.txt");
  await repos.saveBranch(worktree, never);
  const blob = await saveFile(made, await addTo(repos, repo, "two"), "PRIVATE\n");
  await repos.removeWorktree(worktree, never);
  const again = await addTo(repos, repo, "one");
  expect(await plainGit(again.path, "rev-parse", "HEAD")).toBe(tip);
  expect(await objectsOf(again)).toContain(tip);
  expect(await objectsOf(again)).not.toContain(blob);
  await write(again.path, { "more.txt": "1\n" });
  await repos.salvage(again, "one", never);
  const saved = savedDirOf(repo.gitDir);
  expect(await plainGit(saved, "rev-list", "refs/service/salvage/one")).toContain(tip);
});

/** Saved work on a branch that the remote then has no more. */
const onGoneBranch = async (forget: (made: Made) => Promise<unknown>): Promise<Made> => {
  const made = await makeWorktree();
  const { repos, remote } = made;
  await remote.commit({ "base.txt": "base\n" }, { branch: "topic" });
  const repo = await fetchInto(repos, remote.url);
  const worktree = await addTo(repos, repo, "three", { baseRef: "topic" });
  await commitFile(worktree.path, "committed.txt");
  await saveFile(made, worktree, "on topic\n");
  await repos.removeWorktree(worktree, never);
  await forget(made);
  return { ...made, worktree };
};

test.each<[string, (made: Made) => Promise<unknown>]>([
  ["deleted", ({ remote }) => plainGit(remote.url, "update-ref", "-d", "refs/heads/topic")],
  ["rewritten", ({ remote }) => plainGit(remote.url, "update-ref", "refs/heads/topic", "main~0")],
])(
  "saved work outlives the branch that it builds on, which is %s, and then the cached clone",
  async (_, forget) => {
    const made = await onGoneBranch(forget);
    const { repos, repo, worktree } = made;
    const saved = savedDirOf(repo.gitDir);
    await fetchInto(repos, repo.url);
    await plainGit(repo.gitDir, "gc", "--quiet", "--prune=now");
    await expectWhole(saved, "on topic", "refs/service/salvage/three");
    await rm(repo.gitDir, { recursive: true });
    expect((await fetchInto(repos, repo.url)).warnings).toEqual([]);
    await expectWhole(saved, "on topic", "refs/service/salvage/three");
    const again = await addTo(repos, repo, "four", { branch: worktree.branch, baseRef: "main" });
    expect(await read(again.path, "base.txt")).toBe("base\n");
  },
);

test("the command that is printed shows saved work without what the remote had, also after a later fetch", async () => {
  const made = await makeWorktree();
  const { repos, repo, remote, worktree } = made;
  await saveFile(made, worktree, "work\n");
  await remote.commit({ "later.txt": "1\n" });
  await fetchInto(repos, remote.url);
  const [id, ref, gitDir] = ["one", "refs/service/salvage/one", savedDirOf(repo.gitDir)];
  const line = /look at it: +(.*)/.exec(savedWork({ ref, gitDir, id }))?.[1] ?? "";
  const { stdout } = await promisify(execFile)("sh", ["-c", line], { cwd: "/" });
  expect(stdout).toContain("+work");
  expect(stdout).not.toContain("+hello");
});

test("many saves become one pack, without what only expired refs reached", async () => {
  const made = await makeWorktree();
  const { repos, repo, worktree } = made;
  const blob = await saveFile(made, worktree, "expired\n");
  const saved = savedDirOf(repo.gitDir);
  await plainGit(saved, "update-ref", "-d", "refs/service/salvage/one");
  await saveFile(made, await addTo(repos, repo, "two"), "kept\n");
  const packs = join(saved, "objects/pack");
  for (let n = 0; n < 51; n += 1) await writeFile(join(packs, `pack-${n}.pack`), "");
  await fetchInto(repos, repo.url);
  expect((await readdir(packs)).filter((name) => name.endsWith(".pack"))).toHaveLength(1);
  await expectWhole(saved, "kept", "refs/service/salvage/two");
  await expect(plainGit(saved, "cat-file", "-e", blob)).rejects.toThrow("Command failed");
});
