import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm, utimes, writeFile } from "node:fs/promises";
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

/** Makes the cached clone one of an earlier version: it has all saved work itself, and nothing knows of another. */
const asBefore = async ({ repo, settings }: Pick<Made, "repo" | "settings">): Promise<void> => {
  const saved = savedDirOf(repo.gitDir);
  await plainGit(repo.gitDir, "fetch", "--quiet", saved, "+refs/heads/*:refs/heads/*");
  await plainGit(repo.gitDir, "fetch", "--quiet", saved, "+refs/service/*:refs/service/*");
  await rm(saved, { recursive: true });
  await rm(join(repo.gitDir, "generation"));
  const owned = join(settings.worktreeRoot, ".owned");
  for (const name of (await readdir(owned)).filter((each) => each.endsWith(".git")))
    await rm(join(owned, name, "generation"), { force: true });
};

/**
 * As an earlier version left it: `one` has a commit over its base, which the remote has no more, `two` is made again from
 * its saved branch, and each has saved work.
 */
const madeBefore = async () => {
  const made = await makeWorktree();
  const { repos, repo, remote, worktree: one } = made;
  await plainGit(remote.work, "commit", "--quiet", "--amend", "--message", "rewritten");
  await remote.commit({}, { force: true });
  await fetchInto(repos, remote.url);
  await commitFile(one.path, "committed.txt");
  const blob = await saveFile(made, one, "of one\n");
  const two = await addTo(repos, repo, "two");
  const tip = await commitFile(two.path, "two.txt");
  await repos.saveBranch(two, never);
  await repos.removeWorktree(two, never);
  await asBefore(made);
  return { ...made, two, tip, blob };
};

const expectDivided = async ({ repos, repo, worktree, blob }: Awaited<ReturnType<typeof madeBefore>>) => {
  const saved = savedDirOf(repo.gitDir);
  expect(await refsIn(repo.gitDir)).toBe("refs/remotes/origin/main");
  await expect(plainGit(repo.gitDir, "cat-file", "-e", blob)).rejects.toThrow("Command failed");
  await expectWhole(saved, "of one");
  const other = await addTo(repos, repo, "other");
  expect(await objectsOf(other)).not.toContain(blob);
  // Its base is in `saved.git` alone.
  const again = await addTo(repos, repo, "one");
  expect(await plainGit(again.path, "log", "--format=%s", "-1")).toBe("committed.txt");
  expect(await inside(again, "git", "log", "--format=%H")).toContain(String(worktree.baseSha));
  expect(await repos.inspect(again, never)).toMatchObject({ ahead: 1, dirty: true });
  await inside(again, "git", "fsck", "--connectivity-only", "--no-dangling");
};

test("a cached clone of an earlier version becomes `saved.git`, and its worktrees lose nothing", async () => {
  const made = await madeBefore();
  const { repos, repo, two, tip } = made;
  expect((await fetchInto(repos, repo.url)).warnings).toEqual([]);
  await expectDivided(made);
  const again = await addTo(repos, repo, "two");
  expect(await plainGit(again.path, "rev-parse", "HEAD")).toBe(tip);
  expect(again.path).toBe(two.path);
  expect(await objectsOf(again)).not.toContain(made.blob);
  // A week later it has only what is saved.
  const saved = savedDirOf(repo.gitDir);
  const lent = await plainGit(saved, "rev-list", "--objects", "--all");
  expect(await refsIn(saved)).toContain("refs/remotes/origin/main");
  const longAgo = new Date(Date.now() - 8 * 24 * 3_600_000);
  await utimes(join(repo.gitDir, "generation"), longAgo, longAgo);
  await fetchInto(repos, repo.url);
  expect(await refsIn(saved)).not.toContain("refs/remotes");
  await expectWhole(saved, "of one");
  expect(lent).toContain(await plainGit(saved, "rev-parse", "service/two"));
});

test("with its remote away a cached clone of an earlier version stays as it is; work is saved, and a second try divides it", async () => {
  const made = await madeBefore();
  const { repos, repo, remote, worktree } = made;
  await rename(remote.url, `${remote.url}.away`);
  await expect(fetchInto(repos, repo.url)).rejects.toMatchObject({ reason: "clone_failed" });
  await expect(repos.resumeWorktree("one", never)).rejects.toMatchObject({ reason: "clone_failed" });
  expect(borrowedBy(worktree)).not.toContain(`${repo.gitDir}/objects`);
  expect(existsSync(savedDirOf(repo.gitDir))).toBe(false);
  await write(worktree.path, { "late.txt": "late\n" });
  expect(await salvagedRef(repos, worktree, "late", never)).toBe("refs/service/salvage/late");
  const change = {
    repoUrl: repo.url,
    worktreeId: null,
    head: "refs/service/salvage/late",
    base: null,
  } as const;
  const asked = { ...change, format: "names", maxBytes: 1e6, signal: never } as const;
  expect((await repos.diff(asked))?.text).toContain("late.txt");
  await rename(`${remote.url}.away`, remote.url);
  expect(await repos.resumeWorktree("one", never)).toEqual(worktree);
  expect((await repos.diff(asked))?.text).toContain("late.txt");
  await plainGit(savedDirOf(repo.gitDir), "show", "refs/service/salvage/late:late.txt");
  await expectDivided(made);
});

test.each<[string, (made: Made) => Promise<unknown>]>([
  [
    "half of the new clone was made",
    ({ repo }) => mkdir(join(repo.gitDir, "../clone-left/objects"), { recursive: true }),
  ],
  ["the old one had its new name", ({ repo }) => rename(repo.gitDir, savedDirOf(repo.gitDir))],
])("a division that was killed when %s is completed by the next fetch", async (_, step) => {
  const made = await madeBefore();
  await step(made);
  const { repos } = await makeRepos(made.settings);
  expect((await fetchInto(repos, made.repo.url)).warnings).toEqual([]);
  await expectDivided({ ...made, repos });
  expect((await readdir(join(made.repo.gitDir, ".."))).toSorted()).toEqual([
    ".lock",
    "repo.git",
    "saved.git",
  ]);
});

test("a cached clone that lost the mark of its version beside saved work is cloned anew, and nothing is lost", async () => {
  const made = await makeWorktree();
  const { repos, repo, worktree } = made;
  await saveFile(made, worktree, "work\n");
  await writeFile(join(repo.gitDir, "generation"), "");
  const { warnings } = await fetchInto(repos, repo.url);
  expect(warnings).toEqual([expect.stringContaining("has been cloned anew")]);
  await expectWhole(savedDirOf(repo.gitDir), "work");
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: true });
});

test("two instances divide a shared clone of an earlier version once, and the worktrees of both lose nothing", async () => {
  const made = await makeWorktree();
  const { repos, repo, remote, settings } = made;
  const b = await makeRepos({ podName: "other", reposRoot: settings.reposRoot });
  const onB = await addTo(b.repos, repo, "far");
  await plainGit(remote.work, "commit", "--quiet", "--amend", "--message", "rewritten");
  await remote.commit({}, { force: true });
  await fetchInto(repos, remote.url);
  const tip = await commitFile(onB.path, "far.txt");
  const blob = await saveFile(made, made.worktree, "of one\n");
  await asBefore(made);
  await rm(join(onB.ownDir, "generation"));
  const found = await Promise.all([fetchInto(repos, repo.url), fetchInto(b.repos, repo.url)]);
  expect(found.flatMap(({ warnings }) => warnings)).toEqual([]);
  await expectWhole(savedDirOf(repo.gitDir), "of one");
  expect(await salvagedRef(b.repos, onB, "far", never)).toBe("refs/service/salvage/far");
  await addTo(b.repos, repo, "far");
  expect(await inside(onB, "git", "log", "--format=%H")).toBe(`${tip}\n${onB.baseSha}\n`);
  expect(await objectsOf(onB)).not.toContain(blob);
  expect(await plainGit(savedDirOf(repo.gitDir), "rev-list", "refs/service/salvage/far")).toContain(tip);
});

test("the clone that jobs without a repository shared in an earlier version is hidden, and what is saved in it goes on", async () => {
  const { repos, settings } = await makeRepos();
  const one = await addTo(repos, null, "one", { baseRef: "" });
  const tip = await commitFile(one.path, "committed.txt");
  await repos.saveBranch(one, never);
  await repos.removeWorktree(one, never);
  const again = await addTo(repos, null, "one", { baseRef: "" });
  await rename(savedDirOf(one.cacheDir), one.cacheDir);
  await rm(join(again.ownDir, "generation"));
  await rm(join(again.ownDir, "objects/pack"), { recursive: true });
  expect(await inside(again, ...listing).catch(() => "")).not.toContain(tip);
  await repos.inspect(again, never);
  expect(existsSync(join(settings.reposRoot, "no-repository/repo.git"))).toBe(false);
  expect(await inside(again, "git", "log", "--format=%H")).toBe(`${tip}\n`);
});
