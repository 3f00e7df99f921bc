import { expect, test } from "vitest";
import {
  addTo,
  commitFile,
  makeWorktree,
  never,
  plainGit,
  salvagedRef,
  write,
  fetchInto,
} from "./repos.fixture.ts";

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
  const saved = await plainGit(one.cacheDir, "rev-list", String(ref));
  for (const entry of entries) expect(saved).toContain(entry);
  expect(await salvagedRef(repos, one, "one", never)).toBe(ref);
  expect(await plainGit(one.cacheDir, "rev-list", String(ref))).toBe(saved);
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
  const saved = await plainGit(worktree.cacheDir, "rev-list", String(ref));
  for (const commit of [onBranch, onNone, onRef]) expect(saved).toContain(commit);
});

test("a commit of one of the remote's own branches is no unfinished work", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await remote.commit({ "theirs.txt": "1\n" }, { branch: "feature" });
  await fetchInto(repos, remote.url);
  await plainGit(worktree.path, "pull", "--quiet", "--ff-only", remote.url, "feature");
  expect(await salvagedRef(repos, worktree, "job", never)).toBeNull();
});
