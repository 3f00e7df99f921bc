import { existsSync } from "node:fs";
import { mkdir, readFile, rename, rm, stat, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { never, plainGit, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, makeRemote, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { savedDirOf } from "./repos.ts";

type Made = Awaited<ReturnType<typeof makeWorktree>>;

const commit = (path: string): Promise<string> =>
  plainGit(path, "commit", "--quiet", "--allow-empty", "--message", "x");

const files = { "README.md": "hello\n", "a.txt": "1\n", ".gitignore": "*.log\n" };

test("a push updates the remote-tracking ref", async () => {
  const { repos, worktree } = await makeWorktree(files);
  const { path } = worktree;
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await commit(path);
  expect(await repos.isPushed(worktree, never)).toBe(false);
  await repos.push(worktree, never);
  const tip = await plainGit(path, "rev-parse", "HEAD");
  expect(await plainGit(path, "rev-parse", "origin/service/one")).toBe(tip);
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await plainGit(path, "pack-refs", "--all");
  expect(await repos.isPushed(worktree, never)).toBe(true);
});

test("a push that the remote does not show has failed", async () => {
  const bin = await temporaryDirectory();
  const script = `#!/bin/sh\ncase " $* " in *" push "*) exit 0 ;; esac\nexec /usr/bin/git "$@"\n`;
  await writeFile(join(bin, "git"), script, { mode: 0o755 });
  const { repos } = await makeRepos({}, { PATH: `${bin}:${process.env["PATH"]}` });
  const worktree = await addTo(repos, await fetchInto(repos, (await makeRemote()).url), "one");
  await commit(worktree.path);
  await expect(repos.push(worktree, never)).rejects.toMatchObject({
    reason: "push_failed",
    retryable: true,
    message: expect.stringContaining("does not show it at") as unknown,
  });
  expect(await repos.isPushed(worktree, never)).toBe(false);
});

test("a push succeeds also when the remote-tracking ref cannot be updated", async () => {
  const { repos, worktree, remote } = await makeWorktree(files);
  const { path, baseSha } = worktree;
  await plainGit(path, "update-ref", "refs/remotes/origin/service", String(baseSha));
  await commit(path);
  await repos.push(worktree, never);
  expect(await plainGit(remote.url, "rev-parse", "service/one")).toBe(
    await plainGit(path, "rev-parse", "HEAD"),
  );
});

test("work that is on another branch of the remote is pushed, once that is fetched", async () => {
  const { repos, worktree, remote } = await makeWorktree(files);
  await commit(worktree.path);
  await plainGit(worktree.path, "push", "--quiet", remote.url, "HEAD:refs/heads/merged");
  await plainGit(remote.work, "fetch", "--quiet", remote.url, "merged");
  await plainGit(remote.work, "reset", "--hard", "--quiet", "FETCH_HEAD");
  await remote.commit({ "more.txt": "1\n" }, { branch: "merged" });
  expect(await repos.isPushed(worktree, never)).toBe(false);
  await fetchInto(repos, remote.url);
  expect(await repos.isPushed(worktree, never)).toBe(true);
});

test.for<[string, (made: Made) => Promise<unknown>]>([
  ["a deleted file", ({ worktree: { path } }) => rm(join(path, "a.txt"))],
  [
    "a change that is staged and undone in the file",
    async ({ worktree: { path } }) => {
      await write(path, { "a.txt": "2\n" });
      await plainGit(path, "add", "a.txt");
      await write(path, { "a.txt": "1\n" });
    },
  ],
  [
    "a commit on no branch",
    async ({ worktree: { path } }) => {
      await plainGit(path, "checkout", "--quiet", "--detach");
      await commit(path);
    },
  ],
  ["another branch", ({ worktree: { path } }) => plainGit(path, "checkout", "--quiet", "-b", "elsewhere")],
  [
    "a file marked as unchanged",
    async ({ worktree: { path } }) => {
      await plainGit(path, "update-index", "--assume-unchanged", "a.txt");
      await write(path, { "a.txt": "2\n" });
    },
  ],
  [
    "a file marked as not checked out",
    async ({ worktree: { path } }) => {
      await plainGit(path, "update-index", "--skip-worktree", "a.txt");
      await write(path, { "a.txt": "2\n" });
    },
  ],
  [
    "an index of another version",
    async ({ worktree: { path } }) => {
      // All in one second: only the index's own time makes git read the file.
      const second = (): number => Math.floor(Date.now() / 1000);
      await until(async () => {
        const before = second();
        await plainGit(path, "update-index", "--index-version", "4", "--no-assume-unchanged", "a.txt");
        await write(path, { "a.txt": "1\n" });
        await plainGit(path, "update-index", "a.txt");
        await plainGit(path, "update-index", "--assume-unchanged", "a.txt");
        await write(path, { "a.txt": "2\n" });
        return before === second();
      });
      const then = second();
      await until(() => second() > then);
    },
  ],
  [
    "a split index",
    async ({ worktree: { path } }) => {
      await plainGit(path, "update-index", "--assume-unchanged", "a.txt");
      await plainGit(path, "update-index", "--split-index");
      await write(path, { "a.txt": "2\n" });
    },
  ],
  [
    "a change of the same length with the time of before",
    async ({ worktree: { path } }) => {
      const then = new Date("2020-01-01T00:00:00Z");
      await utimes(join(path, "a.txt"), then, then);
      await plainGit(path, "update-index", "--refresh");
      // git compares whole seconds, and the clock of the file system is a few ms behind.
      const { ctimeMs } = await stat(join(path, "a.txt"));
      const nextSecond = (Math.floor(ctimeMs / 1000) + 1) * 1000;
      await until(() => Date.now() > nextSecond + 50);
      await write(path, { "a.txt": "2\n" });
      await utimes(join(path, "a.txt"), then, then);
    },
  ],
  [
    "new files that an exclude file hides",
    async ({ worktree: { path, gitDir } }) => {
      await mkdir(join(gitDir, "info"), { recursive: true });
      await writeFile(join(gitDir, "info/exclude"), "*\n");
      await write(path, { "new.txt": "1\n" });
    },
  ],
  [
    "a repository of its own in place of the worktree's",
    async ({ worktree: { path } }) => {
      await rm(join(path, ".git"), { recursive: true });
      await plainGit(path, "init", "--quiet");
    },
  ],
  [
    "a configuration that hides changes",
    async ({ worktree: { path } }) => {
      await plainGit(path, "config", "core.fileMode", "false");
      await plainGit(path, "config", "status.showUntrackedFiles", "no");
      await write(path, { "new.txt": "1\n" });
    },
  ],
])("a worktree with %s is not pushed, and what is in it is saved", async ([name, harm]) => {
  const made = await makeWorktree(files);
  const { repos, worktree } = made;
  await harm(made);
  expect(await repos.isPushed(worktree, never)).toBe(false);
  if (!/marked|form|split|same length/.test(name)) return;
  const ref = await salvagedRef(repos, worktree, "job", never);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "show", `${ref}:a.txt`)).toBe("2");
});

test("after a push to a remote of the agent's own, or a ref that it wrote, the work counts as not pushed, and is saved", async () => {
  const { repos, worktree, root } = await makeWorktree(files);
  const { path } = worktree;
  await commit(path);
  await plainGit(root, "clone", "--quiet", "--bare", path, "backup.git");
  await plainGit(path, "remote", "add", "backup", join(root, "backup.git"));
  await plainGit(path, "fetch", "--quiet", "backup");
  expect(await repos.isPushed(worktree, never)).toBe(false);
  await plainGit(path, "update-ref", "refs/remotes/origin/service/one", "HEAD");
  expect(await repos.isPushed(worktree, never)).toBe(false);
  expect(await salvagedRef(repos, worktree, "one", never)).toBe("refs/service/salvage/one");
});

test("files that git ignores, new file times and a refreshed index are no work, and the check writes no index", async () => {
  const { repos, worktree } = await makeWorktree(files);
  await write(worktree.path, { "debug.log": "noise\n", "a.txt": "1\n" });
  await utimes(join(worktree.path, "a.txt"), new Date(), new Date(0));
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await plainGit(worktree.path, "status");
  const index = await readFile(join(worktree.gitDir, "index"));
  expect(await repos.isPushed(worktree, never)).toBe(true);
  expect(await readFile(join(worktree.gitDir, "index"))).toEqual(index);
});

test("an index that the agent broke or deleted is no work, and hides none", async () => {
  const { repos, worktree } = await makeWorktree(files);
  const index = join(worktree.gitDir, "index");
  for (const harm of [() => writeFile(index, "broken"), () => rm(index)]) {
    await harm();
    expect(await repos.isPushed(worktree, never)).toBe(true);
  }
  await write(worktree.path, { "a.txt": "2\n" });
  expect(await repos.isPushed(worktree, never)).toBe(false);
});

test("the files outside of a sparse checkout are not deleted by a commit, and those in it are committed", async () => {
  const { repos, worktree } = await makeWorktree({ "in/a.txt": "1\n", "out/b.txt": "1\n" });
  await plainGit(worktree.path, "status");
  await plainGit(worktree.path, "sparse-checkout", "set", "in");
  expect(existsSync(join(worktree.path, "out"))).toBe(false);
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await write(worktree.path, { "in/a.txt": "2\n" });
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "show", "--name-only", "--format=")).toBe("in/a.txt");
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("");
});

test("what the agent staged counts: an ignored file that it added, one that it no longer tracks", async () => {
  const { repos, worktree } = await makeWorktree({ ...files, "built.log.txt": "1\n" });
  await write(worktree.path, { "kept.log": "2\n", ".gitignore": "*.log\nbuilt.log.txt\n" });
  await plainGit(worktree.path, "add", "--force", "kept.log");
  await plainGit(worktree.path, "rm", "--quiet", "--cached", "built.log.txt");
  await repos.commitAll(worktree, "work", never);
  const shown = await plainGit(worktree.path, "show", "--name-status", "--format=");
  expect(shown).toBe("M\t.gitignore\nD\tbuilt.log.txt\nA\tkept.log");
});

test("a directory that cannot be read may contain work", async () => {
  const { repos, worktree } = await makeWorktree(files);
  // Deeper than a path can name: as hard to read for root as for others.
  const chain = Array.from({ length: 70 }, () => "d".repeat(50)).join("/");
  for (const half of ["upper", "lower"]) await mkdir(join(worktree.path, half, chain), { recursive: true });
  const joint = join(worktree.path, "upper", chain, "lower");
  await rename(join(worktree.path, "lower"), joint);
  expect(await repos.isPushed(worktree, never)).toBe(false);
  await rename(joint, join(worktree.path, "lower"));
  expect(await repos.isPushed(worktree, never)).toBe(true);
});

test("a worktree whose directory was deleted is pushed: its clone was in it", async () => {
  const { repos, worktree } = await makeWorktree(files);
  await commit(worktree.path);
  await rm(worktree.path, { recursive: true });
  expect(await repos.isPushed(worktree, never)).toBe(true);
});

test("without a repository, or with an empty one, only a worktree with nothing in it is pushed", async () => {
  const { repos } = await makeRepos();
  const empty = await addTo(repos, await fetchInto(repos, (await makeRemote(null)).url), "empty");
  const scratch = await addTo(repos, null, "scratch");
  for (const worktree of [empty, scratch]) {
    expect(await repos.isPushed(worktree, never)).toBe(true);
    await write(worktree.path, { "a.txt": "1\n" });
    expect(await repos.isPushed(worktree, never)).toBe(false);
    await repos.commitAll(worktree, "work", never);
    await rm(join(worktree.path, "a.txt"));
    expect(await repos.isPushed(worktree, never)).toBe(false);
  }
  await repos.push(empty, never);
  await plainGit(empty.path, "reset", "--hard", "--quiet");
  expect(await repos.isPushed(empty, never)).toBe(true);
});

test("the check ends when its signal aborts", async () => {
  const { repos, worktree } = await makeWorktree(files);
  await expect(repos.isPushed(worktree, AbortSignal.abort(new Error("enough")))).rejects.toThrow("enough");
});
