import { rm } from "node:fs/promises";
import { expect, test } from "vitest";
import { commitFile, never, plainGit, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeWorktree } from "./repos.fixture.ts";

const agent = ["-c", "user.name=agent", "-c", "user.email=agent@localhost"];

/** A worktree whose branch has two commits at the remote, and what agent, others and the next job do there. */
const pushedTwice = async () => {
  const made = await makeWorktree();
  const { repos, remote, repo, worktree } = made;
  const { path, branch } = worktree;
  await commitFile(path, "one.txt");
  const first = await commitFile(path, "two.txt");
  await repos.push(worktree, never);
  return {
    ...made,
    first,
    push: () => repos.push(worktree, never),
    again: async () => addTo(repos, await fetchInto(repos, repo.url), "one"),
    git: (...args: string[]) => plainGit(path, ...agent, ...args),
    atRemote: () => plainGit(remote.url, "rev-parse", branch),
    tip: () => plainGit(path, "rev-parse", "HEAD"),
    /** Somebody commits to the branch, or does something else to it first. */
    theirs: async (name: string, ...before: string[]): Promise<string> => {
      await plainGit(remote.work, "fetch", "--quiet", remote.url, branch);
      await plainGit(remote.work, "checkout", "--quiet", "--force", "-B", "theirs", "FETCH_HEAD");
      if (before.length > 0) await plainGit(remote.work, ...before);
      return await remote.commit({ [name]: "theirs\n" }, { branch, force: true });
    },
  };
};

type Made = Awaited<ReturnType<typeof pushedTwice>>;

test.for<[string, (made: Made) => Promise<unknown>]>([
  ["amended", ({ git }) => git("commit", "--quiet", "--amend", "--message", "better")],
  ["squashed", ({ git }) => git("reset", "--quiet", "--soft", "HEAD~2")],
  ["started over", ({ git }) => git("reset", "--quiet", "--hard", "HEAD~2")],
  [
    "rebased on a base that moved on",
    async ({ git, remote, again }) => {
      await remote.commit({ "main.txt": "1\n" });
      await again();
      await git("rebase", "--quiet", "origin/main");
    },
  ],
])("a branch that was %s is pushed, also by a worktree that is made anew", async ([, rewrite]) => {
  const made = await pushedTwice();
  const { repos, worktree, first, again, push, tip, atRemote } = made;
  await repos.removeWorktree(worktree, never);
  expect((await again()).atRemote).toContain(`up to ${first}. You may rewrite`);
  await rewrite(made);
  await commitFile(worktree.path, "three.txt");
  expect(await push()).toEqual({ isPushed: true, warnings: [] });
  expect(await atRemote()).toBe(await tip());
  expect(await again()).not.toHaveProperty("behind");
});

test("commits of others stay: a push names those that it would leave behind, and goes with them merged or rebased", async () => {
  const { worktree, first, theirs, again, push, git, tip, atRemote } = await pushedTwice();
  const foreign = await theirs("theirs.txt");
  // It comes while the agent works, which has another commit by then.
  await commitFile(worktree.path, "mine.txt");
  const named = new RegExp(
    `commits of others.*${foreign.slice(0, 7)} "a change" by someone\\.\\nWhat to do: .*svc continue JOB`,
  );
  await expect(push()).rejects.toThrow(named);
  expect(await atRemote()).toBe(foreign);
  expect((await again()).behind).toContain(`merge origin/${worktree.branch}, or rebase`);
  await git("merge", "--quiet", "--no-edit", `origin/${worktree.branch}`);
  await push();
  expect(await atRemote()).toBe(await tip());
  // Taken in and pushed by the service once, it is still theirs.
  await git("reset", "--quiet", "--hard", first);
  await commitFile(worktree.path, "anew.txt");
  await expect(push()).rejects.toThrow(named);
  await git("cherry-pick", foreign);
  await push();
  expect(await atRemote()).toBe(await tip());
  await git("reset", "--quiet", "--hard", "HEAD~1");
  await expect(push()).rejects.toThrow('"a change" by someone');
});

test("a commit of others that the agent took in itself, before the service knew of it, stays theirs", async () => {
  const { remote, worktree, first, theirs, again, push, git, tip, atRemote } = await pushedTwice();
  await theirs("theirs.txt");
  await git("pull", "--quiet", "--ff-only", remote.url, worktree.branch);
  await commitFile(worktree.path, "mine.txt");
  await push();
  expect(await atRemote()).toBe(await tip());
  await again();
  await git("reset", "--quiet", "--hard", first);
  await commitFile(worktree.path, "anew.txt");
  await expect(push()).rejects.toThrow(/commits of others.*"a change" by someone\.\n/);
});

test("what a host makes to update a branch, a merge without changes of its own, is no work of others", async () => {
  const { remote, worktree, theirs, again, push, git, tip, atRemote } = await pushedTwice();
  await remote.commit({ "main.txt": "1\n" });
  const main = await plainGit(remote.url, "rev-parse", "main");
  await plainGit(remote.work, "fetch", "--quiet", remote.url, worktree.branch);
  await plainGit(remote.work, "checkout", "--quiet", "-B", "theirs", "FETCH_HEAD");
  await plainGit(remote.work, "merge", "--quiet", "--no-edit", main);
  await plainGit(remote.work, "push", "--quiet", remote.url, `HEAD:${worktree.branch}`);
  await again();
  await git("rebase", "--quiet", "origin/main");
  await push();
  expect(await atRemote()).toBe(await tip());
  await theirs("main.txt");
  await again();
  await git("reset", "--quiet", "--hard", "HEAD~1");
  await expect(push()).rejects.toThrow("commits of others");
});

test("a branch that is gone at the remote is pushed anew, and one that somebody rewrote is taken over", async () => {
  const { remote, worktree, theirs, again, push, git, tip, atRemote } = await pushedTwice();
  await plainGit(remote.url, "update-ref", "-d", `refs/heads/${worktree.branch}`);
  expect((await again()).atRemote).toContain("it was merged or deleted");
  await commitFile(worktree.path, "more.txt");
  await push();
  expect(await atRemote()).toBe(await tip());
  const amended = await theirs("amended.txt", "reset", "--quiet", "--soft", "HEAD~1");
  await write(worktree.path, { "left.txt": "uncommitted\n" });
  expect((await again()).behind).toContain(amended);
  await rm(`${worktree.path}/left.txt`);
  expect(await again()).not.toHaveProperty("behind");
  expect(await tip()).toBe(amended);
  expect(await git("status", "--porcelain")).toBe("");
});

test("an older saved branch is no newer work than the rewritten one that was pushed", async () => {
  const { repos, worktree, again, push, git, tip } = await pushedTwice();
  await commitFile(worktree.path, "saved.txt");
  await repos.saveBranch(worktree, never);
  await git("reset", "--quiet", "--hard", "HEAD~2");
  await commitFile(worktree.path, "instead.txt");
  await push();
  const pushed = await tip();
  await repos.removeWorktree(worktree, never);
  await again();
  expect(await tip()).toBe(pushed);
});

test("a follow-up may name another base; one that is gone is replaced by the default branch when the worktree is made anew", async () => {
  const { repos, remote, repo, worktree } = await pushedTwice();
  await remote.commit({ "dev.txt": "1\n" }, { branch: "dev" });
  const on = async (baseRef: string) => addTo(repos, await fetchInto(repos, repo.url), "one", { baseRef });
  expect(await on("dev")).toMatchObject({ baseRef: "dev", baseSha: worktree.baseSha });
  await expect(on("nowhere")).rejects.toThrow('has no branch or tag "nowhere"');
  await plainGit(remote.url, "branch", "-D", "dev");
  expect(await on("dev")).toMatchObject({ baseRef: "dev" });
  await repos.removeWorktree(worktree, never);
  const { baseRef, warnings } = await on("dev");
  expect([baseRef, ...warnings]).toEqual([
    "main",
    expect.stringContaining('"dev" is no longer at the remote'),
  ]);
});

test("a branch that is checked out in a local repository is known by every form of the repository's address", async () => {
  const { repos, remote, root } = await makeWorktree();
  const [app, bare] = [`${root}/my app`, remote.url.replace(/\.git$/, "")];
  await plainGit(root, "clone", "--quiet", remote.url, app);
  await plainGit(app, "worktree", "add", "--quiet", "-b", "service/linked", `${root}/linked app`);
  await plainGit(remote.url, "worktree", "add", "--quiet", "-b", "service/bare", `${root}/other`);
  await plainGit(app, "checkout", "--quiet", "-b", "service/own");
  const at = `file://${root}/`;
  for (const [url, id, isThere] of [
    [`${at}my%20app`, "own", true],
    [`${at}linked%20%61pp`, "linked", true],
    [bare, "bare", true],
    [`${at}my%20app`, "free", false],
  ] as const) {
    const repo = await fetchInto(repos, url);
    const warning = await repos.tryPush(await addTo(repos, repo, id), never);
    expect([id, warning?.includes("is checked out in") ?? false]).toEqual([id, isThere]);
  }
  await plainGit(app, "config", "hook.x.command", "touch x");
  const worktree = await addTo(repos, await fetchInto(repos, `${at}my%20app`), "more");
  await expect(repos.tryPush(worktree, never)).rejects.toThrow("has hooks in its configuration");
});
