import { generateKeyPairSync } from "node:crypto";
import { chmod, rm, truncate } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { commitFile, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, makeRemote, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { savedDirOf, type Worktree } from "./repos.ts";

const commitAs = async ({ path }: Worktree, files: Record<string, string | null>): Promise<string> => {
  await write(path, files);
  await plainGit(path, "add", "--all");
  await plainGit(path, "commit", "--quiet", "--message", "by the agent");
  return plainGit(path, "rev-parse", "HEAD");
};

const salvaged = async ({ repos, worktree }: Awaited<ReturnType<typeof makeWorktree>>): Promise<string[]> => {
  const ref = await salvagedRef(repos, worktree, "job", never);
  if (ref === null) return [];
  return (await plainGit(savedDirOf(worktree.cacheDir), "ls-tree", "-r", "--name-only", ref)).split("\n");
};

test("the state of a worktree counts uncommitted, new, deleted and binary files", async () => {
  const { repos, worktree } = await makeWorktree({ "a.txt": "1\n2\n", "gone.txt": "x\n" });
  expect(await repos.inspect(worktree, never)).toEqual({
    dirty: false,
    head: worktree.baseSha,
    kept: [],
    hasOtherCommits: false,
    ahead: 0,
    diffStat: { files: 0, insertions: 0, deletions: 0 },
    paths: [],
  });
  const head = await commitAs(worktree, { "b.txt": "1\n" });
  await rm(join(worktree.path, "gone.txt"));
  await write(worktree.path, {
    "a.txt": "1\nchanged\n",
    "new file\n.txt": "1\n2\n3\n",
    "binary.bin": "\0\0\0",
  });
  expect(await repos.inspect(worktree, never)).toEqual({
    dirty: true,
    head,
    kept: [],
    hasOtherCommits: false,
    ahead: 1,
    diffStat: { files: 5, insertions: 5, deletions: 2 },
    paths: ["a.txt", "b.txt", "binary.bin", "gone.txt", "new file\n.txt"],
  });
  expect(await plainGit(worktree.path, "diff", "--cached", "--name-only")).toBe("");
});

test("everything but ignored files is committed to the branch", async () => {
  const { repos, worktree } = await makeWorktree({ ".gitignore": "*.log\n" });
  await write(worktree.path, { "a.txt": "1\n", "debug.log": "noise" });
  const tip = await repos.commitAll(worktree, "A title\n\nAnd a body", never);
  expect(await plainGit(worktree.path, "rev-parse", "service/one")).toBe(tip);
  expect(await plainGit(worktree.path, "log", "-1", "--format=%an <%ae>|%s|%b")).toBe(
    "svc <svc@localhost>|A title|And a body",
  );
  expect(await plainGit(worktree.path, "show", "--name-only", "--format=")).toBe("a.txt");
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/one");
  expect(await repos.commitAll(worktree, "again", never)).toBe(tip);
});

test("commits on another branch or on none are merged into the worktree's own branch", async () => {
  const { repos, worktree } = await makeWorktree();
  await plainGit(worktree.path, "checkout", "--quiet", "-b", "elsewhere");
  await commitAs(worktree, { "a.txt": "1\n" });
  await plainGit(worktree.path, "checkout", "--quiet", "--detach");
  const head = await commitAs(worktree, { "b.txt": "1\n" });
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: true, ahead: 2, head });
  expect(await repos.commitAll(worktree, "x", never)).toBe(head);
  expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/one");
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false, ahead: 2, head });
});

test("diverged histories are both kept, with the files as the agent left them", async () => {
  const { repos, worktree } = await makeWorktree();
  const first = await commitAs(worktree, { "first.txt": "1\n" });
  await plainGit(worktree.path, "checkout", "--quiet", "-b", "elsewhere", "HEAD~1");
  const second = await commitAs(worktree, { "second.txt": "1\n" });
  const tip = await repos.commitAll(worktree, "both", never);
  expect(await plainGit(worktree.path, "log", "-1", "--format=%P", tip)).toBe(`${second} ${first}`);
  expect(await plainGit(worktree.path, "ls-tree", "--name-only", tip)).toBe("README.md\nsecond.txt");
});

test("a checkout of an older commit is no work: the branch stays and the files follow it again", async () => {
  const { repos, worktree } = await makeWorktree();
  const tip = await commitAs(worktree, { "a.txt": "1\n" });
  await plainGit(worktree.path, "checkout", "--quiet", "--detach", "HEAD~1");
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: true });
  expect(await repos.commitAll(worktree, "x", never)).toBe(tip);
  expect(await read(worktree.path, "a.txt")).toBe("1\n");
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false, head: tip, ahead: 1 });
});

test("a branch that starts over on a newer base has nothing of its own", async () => {
  const { repos, repo, remote, worktree } = await makeWorktree();
  await commitAs(worktree, { "a.txt": "1\n" });
  await remote.commit({ "main.txt": "1\n" });
  await addTo(repos, await fetchInto(repos, repo.url), "one");
  await plainGit(worktree.path, "reset", "--quiet", "--hard", "origin/main");
  expect(await repos.inspect(worktree, never)).toMatchObject({ ahead: 0 });
  await commitAs(worktree, { "b.txt": "1\n" });
  expect(await repos.inspect(worktree, never)).toMatchObject({ ahead: 1 });
});

test("salvage puts commits and uncommitted files under the job's ref and leaves branch, index and files as they are", async () => {
  const made = await makeWorktree();
  const { repos, worktree } = made;
  expect(await salvagedRef(repos, worktree, "job", never)).toBeNull();
  const head = await commitAs(worktree, { "a.txt": "1\n" });
  await write(worktree.path, { "staged.txt": "1\n", "b.txt": "1\n" });
  await plainGit(worktree.path, "add", "staged.txt");
  const before = await plainGit(worktree.path, "status", "--porcelain", "--branch");
  expect(await salvaged(made)).toEqual(["README.md", "a.txt", "b.txt", "staged.txt"]);
  expect(await plainGit(worktree.path, "status", "--porcelain", "--branch")).toBe(before);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "rev-parse", "refs/service/salvage/job^")).toBe(head);
});

test("a second salvage without changes adds nothing, one with changes keeps the first", async () => {
  const { repos, worktree } = await makeWorktree();
  const tip = (): Promise<string> =>
    plainGit(savedDirOf(worktree.cacheDir), "rev-parse", "refs/service/salvage/job");
  await write(worktree.path, { "a.txt": "1\n" });
  await salvagedRef(repos, worktree, "job", never);
  const first = await tip();
  await salvagedRef(repos, worktree, "job", never);
  expect(await tip()).toBe(first);
  await rm(join(worktree.path, "a.txt"));
  await write(worktree.path, { "b.txt": "1\n" });
  await salvagedRef(repos, worktree, "job", never);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "ls-tree", "--name-only", await tip())).toBe(
    "README.md\nb.txt",
  );
  await plainGit(savedDirOf(worktree.cacheDir), "merge-base", "--is-ancestor", first, await tip());
});

/** Two jobs of one repository; the agent of each has stashed two changes of its own. */
const stashed = async () => {
  const made = await makeWorktree();
  const { repos, repo, worktree: one } = made;
  const two = await addTo(repos, repo, "two");
  for (const { path, worktreeId } of [one, two])
    for (const n of [1, 2]) {
      await write(path, { "README.md": `by ${worktreeId} ${n}\n` });
      await plainGit(path, "stash");
    }
  return { ...made, one, two };
};

test("each job has a stash of its own; its entries count as not pushed, and are salvaged once", async () => {
  const { repos, one, two } = await stashed();
  expect(await repos.inspect(one, never)).toMatchObject({ dirty: false, hasOtherCommits: true });
  expect(await repos.isPushed(one, never)).toBe(false);
  const entries = (await plainGit(one.path, "stash", "list", "--format=%H")).split("\n");
  expect(entries).toHaveLength(2);
  const ref = await salvagedRef(repos, one, "one", never);
  expect(ref).toBe("refs/service/salvage/one");
  const saved = await plainGit(savedDirOf(one.cacheDir), "rev-list", String(ref));
  for (const entry of entries) expect(saved).toContain(entry);
  expect(await salvagedRef(repos, one, "one", never)).toBe(ref);
  expect(await plainGit(savedDirOf(one.cacheDir), "rev-list", String(ref))).toBe(saved);
  expect(await plainGit(two.path, "stash", "list", "--format=%gs")).toMatch(/service\/two.*\n.*service\/two/);
});

test("commits on other branches, under another ref and on none are salvaged", async () => {
  const { repos, worktree } = await makeWorktree();
  const { path } = worktree;
  await plainGit(path, "checkout", "--quiet", "-b", "aside");
  const onBranch = await commitFile(path, "branch.txt");
  await plainGit(path, "checkout", "--quiet", "--detach", "service/one");
  const onNone = await commitFile(path, "detached.txt");
  await plainGit(path, "checkout", "--quiet", "--detach", "service/one");
  const onRef = await commitFile(path, "kept.txt");
  await plainGit(path, "update-ref", "refs/worktree/keep", "HEAD");
  await plainGit(path, "checkout", "--quiet", "service/one");
  expect(await repos.isPushed(worktree, never)).toBe(false);
  const ref = await salvagedRef(repos, worktree, "one", never);
  const saved = await plainGit(savedDirOf(worktree.cacheDir), "rev-list", String(ref));
  for (const commit of [onBranch, onNone, onRef]) expect(saved).toContain(commit);
});

test("a commit of one of the remote's own branches is no unfinished work", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await remote.commit({ "theirs.txt": "1\n" }, { branch: "feature" });
  await fetchInto(repos, remote.url);
  await plainGit(worktree.path, "pull", "--quiet", "--ff-only", remote.url, "feature");
  expect(await salvagedRef(repos, worktree, "job", never)).toBeNull();
});

test.for<[string, (worktree: Worktree) => Promise<unknown>]>([
  [
    "made a repository of its own",
    ({ path, gitDir }) => rm(gitDir, { recursive: true }).then(() => plainGit(path, "init", "--quiet")),
  ],
  ["deleted the .git directory", ({ gitDir }) => rm(gitDir, { recursive: true })],
  [
    "broke HEAD and made a file unreadable",
    ({ path, gitDir }) => truncate(join(gitDir, "HEAD"), 0).then(() => chmod(join(path, "b.txt"), 0)),
  ],
  [
    "deleted its branch",
    ({ path, branch }) =>
      plainGit(path, "checkout", "--quiet", "--detach").then(() =>
        plainGit(path, "branch", "--quiet", "-D", branch),
      ),
  ],
])("nothing is lost when the agent %s", async ([, harm]) => {
  const made = await makeWorktree();
  await commitAs(made.worktree, { "a.txt": "1\n" });
  await write(made.worktree.path, { "b.txt": "1\n" });
  await harm(made.worktree);
  const found = await salvaged(made);
  // A file without read rights is read by root all the same, and passed over for others.
  const passedOver = process.getuid?.() === 0 ? [] : ["b.txt"];
  const isSure = (name: string): boolean => !passedOver.includes(name);
  expect(found.filter(isSure)).toEqual(["README.md", "a.txt", "b.txt"].filter(isSure));
  expect(await made.repos.inspect(made.worktree, never)).toBeDefined();
  await made.repos.removeWorktree(made.worktree, never);
});

test("the branch, and no other, is pushed", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await plainGit(worktree.path, "branch", "private");
  await plainGit(worktree.path, "tag", "private-tag");
  const tip = await commitAs(worktree, { "a.txt": "1\n" });
  await repos.push(worktree, never);
  await repos.push(worktree, never);
  expect(await plainGit(remote.url, "for-each-ref", "--format=%(refname)")).toBe(
    "refs/heads/main\nrefs/heads/service/one",
  );
  expect(await plainGit(remote.url, "rev-parse", "service/one")).toBe(tip);
});

test("a refused push reports the server's reason, and the work stays", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await commitAs(worktree, { "a.txt": "1\n" });
  await plainGit(remote.url, "config", "receive.hideRefs", "refs/heads/service");
  const refused = repos.push(worktree, never);
  await expect(refused).rejects.toMatchObject({ reason: "push_failed", retryable: false });
  await expect(refused).rejects.toThrow("deny updating a hidden ref");
  await plainGit(remote.url, "config", "--unset", "receive.hideRefs");
  await plainGit(remote.work, "push", "--quiet", remote.url, `+HEAD:refs/heads/service/one`);
  await commitAs(worktree, { "b.txt": "1\n" });
  await remote.commit({ "other.txt": "1\n" }, { branch: "service/one", force: true });
  await expect(repos.push(worktree, never)).rejects.toThrow(
    /commits of others at the remote.*"a change" by someone/,
  );
  expect(await repos.inspect(worktree, never)).toMatchObject({ ahead: 2 });
});

test("without a git host only the branch is pushed, and the reason is reported", async () => {
  const { repos, worktree } = await makeWorktree();
  const request = { worktree, isDraft: false, title: "t", body: "b", signal: never };
  expect(await repos.openPullRequest(request)).toEqual({
    url: null,
    reason: expect.stringContaining("not on the git host github.com"),
  });
  const hosted = { ...worktree, repoUrl: "https://github.com/acme/app" };
  expect(await repos.openPullRequest({ ...request, worktree: hosted })).toEqual({
    url: null,
    reason: expect.stringContaining("set GIT_HOST_TOKEN"),
  });
});

test("a token of an app that cannot be had now makes the pull request fail, to be tried again", async () => {
  const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  const gitHostAppPrivateKey = String(privateKey.export({ type: "pkcs1", format: "pem" }));
  const app = { gitHostAppId: "1", gitHostAppInstallationId: "2", gitHostAppPrivateKey };
  const { repos } = await makeRepos({ gitHost: "127.0.0.1:9", ...app });
  const { worktree } = await makeWorktree();
  const hosted = { ...worktree, repoUrl: "https://127.0.0.1:9/acme/app" };
  const request = { worktree: hosted, isDraft: false, title: "t", body: "b", signal: never };
  await expect(repos.openPullRequest(request)).rejects.toMatchObject({
    reason: "pr_failed",
    retryable: true,
  });
});

test("an existing repository is not created", async () => {
  const { repos, remote } = await makeWorktree();
  expect(await repos.createMissing({ url: remote.url, private: true, signal: never })).toBeNull();
  await expect(
    repos.createMissing({ url: `${remote.url}-none`, private: true, signal: never }),
  ).rejects.toThrow(/does not exist and could not be made/);
  const unreachable = repos.createMissing({ url: "http://127.0.0.1:9/a/b", private: true, signal: never });
  await expect(unreachable).rejects.toMatchObject({ reason: "clone_failed", retryable: true });
});

test("a remote branch with the name of our branch's directory is named before the work and when the push fails", async () => {
  const remote = await makeRemote();
  await remote.commit({}, { branch: "service" });
  const { repos } = await makeRepos();
  const worktree = await addTo(repos, await fetchInto(repos, remote.url), "one");
  expect(worktree.warnings).toEqual([
    'The remote has a branch "service", beside which git takes no branch "service/one": it cannot be pushed until that one is renamed.',
  ]);
  await write(worktree.path, { "work.txt": "work\n" });
  await repos.commitAll(worktree, "work", never);
  await expect(repos.push(worktree, never)).rejects.toMatchObject({
    reason: "push_failed",
    retryable: false,
    message: expect.stringContaining("a branch there has the name of a directory of this one's") as string,
  });
});
