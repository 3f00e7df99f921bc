import { existsSync } from "node:fs";
import { mkdir, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, makeRepos, makeWorktree } from "./repos.fixture.ts";
import type { DiffRequest, Repos, Worktree } from "./repos.ts";

const ask = (repos: Repos, { repoUrl, worktreeId }: Worktree, more: Partial<DiffRequest> = {}) => {
  const asked = { repoUrl, worktreeId, head: null, base: null, signal: never };
  return repos.diff({ ...asked, format: "patch", maxBytes: 1_000_000, ...more });
};

const someText = "one\ntwo\nthree\nfour\nfive\n";

test("the change of a worktree in use has committed, uncommitted and new files, and leaves all as it was", async () => {
  const { repos, worktree, remote } = await makeWorktree({
    "a.txt": "a\n",
    "old.txt": someText,
    "z.txt": "z\n",
  });
  const { path } = worktree;
  await write(path, { "a.txt": "committed\n" });
  await plainGit(path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-aqm", "work");
  await rename(join(path, "old.txt"), join(path, "new.txt"));
  await rm(join(path, "z.txt"));
  await write(path, { "ünï\ncode \u{1b}[31m": "x\n", "zero.bin": "a\0b" });
  // What a git command of the agent holds at this moment.
  await writeFile(join(path, ".git", "index.lock"), "");
  const before = await read(path, ".git", "index");

  const change = await ask(repos, worktree);
  expect(change?.files).toEqual([
    { path: "a.txt", old_path: null, status: "modified", insertions: 1, deletions: 1, binary: false },
    { path: "new.txt", old_path: "old.txt", status: "renamed", insertions: 0, deletions: 0, binary: false },
    { path: "z.txt", old_path: null, status: "deleted", insertions: 0, deletions: 1, binary: false },
    { path: "zero.bin", old_path: null, status: "added", insertions: 0, deletions: 0, binary: true },
    {
      path: "ünï\ncode \u{1b}[31m",
      old_path: null,
      status: "added",
      insertions: 1,
      deletions: 0,
      binary: false,
    },
  ]);
  expect(change).toMatchObject({ base: worktree.baseSha, head: null, truncated: false, lossy: false });
  expect(existsSync(join(path, ".git", "index.lock"))).toBe(true);
  expect(await read(path, ".git", "index")).toBe(before);

  // The patch makes the same files elsewhere.
  const other = join(await temporaryDirectory(), "other");
  await plainGit("/", "clone", "--quiet", remote.url, other);
  await writeFile(join(other, "..", "patch"), change?.text ?? "");
  await plainGit(other, "apply", "--index", "../patch");
  await rm(join(path, ".git", "index.lock"));
  await plainGit(path, "add", "--all");
  expect(await plainGit(other, "write-tree")).toBe(await plainGit(path, "write-tree"));
});

test("a diff that is too long ends before the first file that does not fit", async () => {
  const { repos, worktree } = await makeWorktree();
  await write(worktree.path, {
    "a.txt": "small\n",
    "b.txt": "diff --git a/x b/x\n".repeat(200),
    "c.txt": "c\n",
  });
  const change = await ask(repos, worktree, { maxBytes: 1000 });
  expect(change?.truncated).toBe(true);
  expect(change?.text).toMatch(/^diff --git a\/a.txt b\/a.txt\n[^]*\n\+small\n$/);
  expect(change?.files).toHaveLength(3);
  const names = await ask(repos, worktree, { maxBytes: 10, format: "names" });
  expect(names).toMatchObject({ text: "a.txt\n", truncated: true });
});

test("nothing runs that an agent configures while it works, and its configuration stays", async () => {
  const { repos, worktree } = await makeWorktree();
  const trap = join(await temporaryDirectory(), "sprung");
  const config = `[core]
\tfsmonitor = touch ${trap}
[filter "evil"]
\tclean = touch ${trap}
\tprocess = touch ${trap}
[diff]
\texternal = touch ${trap}
[diff "evil"]
\ttextconv = touch ${trap}
`;
  await writeFile(join(worktree.gitDir, "config"), config);
  await mkdir(join(worktree.gitDir, "info"), { recursive: true });
  await writeFile(join(worktree.gitDir, "info", "attributes"), "* filter=evil diff=evil\n");
  await writeFile(join(worktree.gitDir, "info", "exclude"), "*\n");
  await write(worktree.path, { ".gitattributes": "* filter=evil diff=evil\n" });
  await writeFile(join(worktree.path, "latin.txt"), Buffer.from("caf\xe9\n", "latin1"));
  // Bytes that are not UTF-8 are reported, because the patch lacks them.
  expect(await ask(repos, worktree)).toMatchObject({ lossy: true, files: [{}, { path: "latin.txt" }] });
  expect(existsSync(trap)).toBe(false);
  expect(await read(worktree.gitDir, "config")).toBe(config);
});

test("a branch is compared with where it began, also when the base has moved on or has merged it", async () => {
  const { repos, worktree, remote, repo } = await makeWorktree();
  await write(worktree.path, { "work.txt": "work\n" });
  const head = await repos.commitAll(worktree, "work", never);
  await repos.push(worktree, never);
  await plainGit(remote.work, "fetch", "--quiet", remote.url, worktree.branch);
  await plainGit(remote.work, "merge", "--quiet", "--ff-only", "FETCH_HEAD");
  await remote.commit({ "later.txt": "later\n" });
  await repos.removeWorktree(worktree, never);
  const asked = { worktreeId: null, head, base: worktree.baseSha };
  // The cached clone has not seen the push.
  expect(await ask(repos, worktree, asked)).toBeNull();
  await repos.fetch({ url: repo.url, jobId: "job", signal: never });
  expect((await ask(repos, worktree, asked))?.files.map(({ path }) => path)).toEqual(["work.txt"]);
});

test("saved work is found by its ref", async () => {
  const { repos, worktree } = await makeWorktree();
  await write(worktree.path, { "work.txt": "work\n" });
  const { ref } = await repos.salvage(worktree, "the-job", never);
  await repos.removeWorktree(worktree, never);
  const change = await ask(repos, worktree, { worktreeId: null, head: ref, base: worktree.baseSha });
  expect(change).toMatchObject({ base: worktree.baseSha, files: [{ path: "work.txt" }] });
});

test("work without a repository is compared with nothing", async () => {
  const { repos } = await makeRepos();
  const worktree = await addTo(repos, null, "scratch");
  await write(worktree.path, { "work.txt": "work\n" });
  expect(await ask(repos, worktree)).toMatchObject({
    base: null,
    files: [{ path: "work.txt", status: "added" }],
  });
});
