import { existsSync } from "node:fs";
import { rm, symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { commitFile, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, makeRemote, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { savedDirOf } from "./repos.ts";

/** Two instances on two hosts: a worktree root each, one root of cached clones on a file system that both see. */
const twoHosts = async () => {
  const a = await makeWorktree();
  const b = await makeRepos({ podName: "other", reposRoot: a.settings.reposRoot });
  return { a, b, repo: a.repo, onA: a.worktree };
};

test("a worktree of a lost instance is made at this instance's path, from its saved branch", async () => {
  const { a, b, onA, repo } = await twoHosts();
  await write(onA.path, { "committed.txt": "1\n" });
  const tip = await a.repos.commitAll(onA, "work", never);
  await a.repos.saveBranch(onA, never);
  const onB = await addTo(b.repos, repo, "one");
  expect(onB.path).toBe(join(b.settings.worktreeRoot, "one"));
  expect(onB).toMatchObject({ branch: "service/one", baseSha: onA.baseSha });
  expect(await plainGit(onB.path, "rev-parse", "HEAD")).toBe(tip);
  expect(await read(onB.path, "committed.txt")).toBe("1\n");
  expect(await plainGit(onB.path, "status", "--short", "--branch")).toBe("## service/one");
});

test("later changes by the lost instance's agent do not touch the new worktree, and are saved under another ref", async () => {
  const { a, b, onA, repo } = await twoHosts();
  const onB = await addTo(b.repos, repo, "one");
  await write(onB.path, { "theirs.txt": "b\n" });
  await write(onA.path, { "ours.txt": "a\n", "stashed.txt": "s\n" });
  await plainGit(onA.path, "add", "stashed.txt");
  await plainGit(onA.path, "stash");
  await plainGit(onA.path, "branch", "other");
  expect(await plainGit(onB.path, "status", "--short", "--branch")).toBe("## service/one\n?? theirs.txt");
  expect(await plainGit(onB.path, "stash", "list")).toBe("");
  expect(await salvagedRef(b.repos, onB, "one", never)).toBe("refs/service/salvage/one");
  expect(await salvagedRef(a.repos, onA, "one-pod", never)).toBe("refs/service/salvage/one-pod");
  const show = (ref: string, file: string): Promise<string> =>
    plainGit(savedDirOf(repo.gitDir), "show", `refs/service/salvage/${ref}:${file}`);
  expect(await show("one", "theirs.txt")).toBe("b");
  expect(await show("one-pod", "ours.txt")).toBe("a");
  await a.repos.removeWorktree(onA, never);
  expect(existsSync(onA.path)).toBe(false);
  expect(await plainGit(onB.path, "status", "--short", "--branch")).toBe("## service/one\n?? theirs.txt");
});

test("on a root that both see, the worktree of a lost instance becomes the other instance's unchanged", async () => {
  const made = await makeWorktree();
  const other = await makeRepos({ ...made.settings, podName: "other" });
  await write(made.worktree.path, { "file.txt": "1\n" });
  expect(await made.repos.readWorktree("one")).toMatchObject({ instance: "pod" });
  expect(await addTo(other.repos, made.repo, "one")).toEqual(made.worktree);
  expect(await made.repos.readWorktree("one")).toMatchObject({ instance: "other" });
  await other.repos.commitAll(made.worktree, "work", never);
  expect(await plainGit(made.worktree.path, "show", "HEAD:file.txt")).toBe("1");
  await other.repos.removeWorktree(made.worktree, never);
  expect(await other.repos.listWorktreeIds()).toEqual([]);
});

test("an empty repository's worktree of a lost instance is made again too", async () => {
  const remote = await makeRemote(null);
  const a = await makeRepos();
  const b = await makeRepos({ podName: "other", reposRoot: a.settings.reposRoot });
  const repo = await fetchInto(a.repos, remote.url);
  const onA = await addTo(a.repos, repo, "one");
  await write(onA.path, { "file.txt": "1\n" });
  const onB = await addTo(b.repos, repo, "one");
  await write(onB.path, { "other.txt": "2\n" });
  await b.repos.commitAll(onB, "first", never);
  expect(await salvagedRef(a.repos, onA, "one-pod", never)).toBe("refs/service/salvage/one-pod");
  expect(
    await plainGit(savedDirOf(repo.gitDir), "ls-tree", "--name-only", "refs/service/salvage/one-pod"),
  ).toBe("file.txt");
});

test("a branch that was pushed after it was saved is resumed from the pushed commit", async () => {
  const { repos, repo, remote, worktree } = await makeWorktree();
  await write(worktree.path, { "first.txt": "1\n" });
  await repos.commitAll(worktree, "first", never);
  await repos.saveBranch(worktree, never);
  await write(worktree.path, { "second.txt": "1\n" });
  const tip = await repos.commitAll(worktree, "second", never);
  await repos.push(worktree, never);
  await repos.removeWorktree(worktree, never);
  await fetchInto(repos, remote.url);
  const again = await addTo(repos, repo, "one");
  expect(await plainGit(again.path, "rev-parse", "HEAD")).toBe(tip);
});

test("a reused worktree has the remote's current branches", async () => {
  const { repos, repo, remote, worktree } = await makeWorktree();
  await plainGit(worktree.path, "tag", "mine");
  const tip = await remote.commit({ "later.txt": "1\n" });
  await fetchInto(repos, remote.url);
  expect(await plainGit(worktree.path, "rev-parse", "origin/main")).not.toBe(tip);
  await addTo(repos, repo, "one");
  expect(await plainGit(worktree.path, "rev-parse", "origin/main")).toBe(tip);
  expect(await plainGit(worktree.path, "tag")).toBe("mine");
});

/** A worktree whose branch is pushed, and the next job's checkout of it. */
const pushed = async () => {
  const made = await makeWorktree({ ".gitignore": "ignored.txt\n" });
  const { repos, remote, repo, worktree } = made;
  await commitFile(worktree.path, "ours.txt");
  await repos.push(worktree, never);
  const again = async () => addTo(repos, await fetchInto(repos, repo.url), "one");
  /** Somebody commits to the branch. */
  const theirs = async (files: Record<string, string>): Promise<string> => {
    await plainGit(remote.work, "fetch", "--quiet", remote.url, worktree.branch);
    await plainGit(remote.work, "checkout", "--quiet", "--force", "-B", "theirs", "FETCH_HEAD");
    return remote.commit(files, { branch: worktree.branch });
  };
  return { ...made, again, theirs };
};

test("what others have committed to the branch is taken over, and the next push goes through", async () => {
  const { repos, remote, worktree, theirs, again } = await pushed();
  await symlink("/etc/hostname", join(remote.work, "out"));
  const commit = await theirs({ "theirs.txt": "theirs\n" });
  expect(await again()).not.toHaveProperty("behind");
  expect(await plainGit(worktree.path, "rev-parse", "HEAD", worktree.branch)).toBe(`${commit}\n${commit}`);
  expect(existsSync(join(worktree.path, "theirs.txt"))).toBe(true);
  // A link out of the repository is left out, as in a first checkout.
  expect(existsSync(join(worktree.path, "out"))).toBe(false);
  expect(await repos.isPushed(worktree, never)).toBe(true);
  const next = await commitFile(worktree.path, "next.txt");
  await repos.push(worktree, never);
  expect(await plainGit(remote.url, "rev-parse", worktree.branch)).toBe(next);
  expect((await again()).warnings).toEqual([]);
});

test("a worktree that has changes, an ignored file in the way, another branch or commits of its own stays as it is, and says what it lacks", async () => {
  const { repos, remote, worktree, theirs, again } = await pushed();
  const { path, branch } = worktree;
  await write(remote.work, { ".gitignore": "" });
  const commit = await theirs({ "ignored.txt": "theirs\n", ".gitignore": "" });
  const steps: [() => Promise<unknown>, () => Promise<unknown>][] = [
    [() => write(path, { "dirt.txt": "1\n" }), () => rm(join(path, "dirt.txt"))],
    [() => write(path, { "ignored.txt": "1\n" }), () => rm(join(path, "ignored.txt"))],
    [
      () => plainGit(path, "checkout", "--quiet", "-b", "another"),
      () => plainGit(path, "checkout", "--quiet", branch),
    ],
    [() => commitFile(path, "mine.txt"), () => repos.saveBranch(worktree, never)],
    // It is made again from its saved branch.
    [() => rm(path, { recursive: true }), async () => undefined],
  ];
  let head = "";
  for (const [change, undo] of steps) {
    await change();
    if (existsSync(path)) head = await plainGit(path, "rev-parse", "HEAD");
    const { behind, warnings } = await again();
    expect(behind).toContain(`The branch ${branch} has commits at the remote`);
    expect(behind).toContain(commit);
    expect(warnings).toContain(behind);
    expect(await plainGit(path, "rev-parse", "HEAD")).toBe(head);
    await undo();
  }
  expect(existsSync(join(path, "mine.txt"))).toBe(true);
});
