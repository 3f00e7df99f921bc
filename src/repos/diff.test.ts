import { existsSync } from "node:fs";
import { randomBytes } from "node:crypto";
import { chmod, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { never, plainGit, read, write } from "./plain-git.fixture.ts";
import { createPatchReader } from "./patch-text.ts";
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
  const file = {
    old_path: null,
    status: "modified",
    insertions: 0,
    deletions: 0,
    binary: false,
    left_out: false,
  };
  expect(change?.files).toEqual([
    { ...file, path: "a.txt", insertions: 1, deletions: 1, size: 10 },
    { ...file, path: "new.txt", old_path: "old.txt", status: "renamed", size: someText.length },
    { ...file, path: "z.txt", status: "deleted", deletions: 1, size: 2 },
    { ...file, path: "zero.bin", status: "added", binary: true, size: 3 },
    { ...file, path: "ünï\ncode \u{1b}[31m", status: "added", insertions: 1, size: 2 },
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

test("a file that does not fit hides no other: the largest are left out, and marked", async () => {
  const large = "text that is long\n".repeat(200);
  const { repos, worktree } = await makeWorktree({
    "gone.txt": "gone\n".repeat(800),
    "long.txt": large,
    "old.bin": `\0${"old\n".repeat(1000)}`,
    "z.txt": "z\n",
  });
  const { path } = worktree;
  await write(path, {
    "a-lock.json": large,
    "b.txt": "diff --git a/x b/x\n".repeat(10),
    "c.bin": `\0${large}`,
    "long.txt": `${large}one more\n`,
    "z.txt": "changed\n",
  });
  for (const name of ["gone.txt", "old.bin"]) await rm(join(path, name));
  await symlink("z.txt", join(path, "link"));
  const change = await ask(repos, worktree, { maxBytes: 2000 });
  const headings = change?.text
    .match(/^diff --git a\/\S+/gm)
    ?.map((line) => line.slice("diff --git a/".length));
  expect(headings).toEqual(["b.txt", "link", "long.txt", "z.txt"]);
  expect(change?.text.endsWith("-z\n+changed\n")).toBe(true);
  const left = change?.files.filter(({ left_out }) => left_out);
  expect(left?.map((file) => [file.path, file.size, file.insertions, file.deletions])).toEqual([
    ["a-lock.json", large.length, 200, 0],
    ["c.bin", large.length + 1, 0, 0],
    ["gone.txt", 4000, 0, 800],
    ["old.bin", 4001, 0, 0],
  ]);
  expect(change?.truncated).toBe(true);
  // The rest makes the same files elsewhere.
  await writeFile(join(path, "..", "patch"), change?.text ?? "");
  await plainGit(worktree.path, "apply", "--check", "--reverse", "../patch");
  const names = await ask(repos, worktree, { maxBytes: 18, format: "names" });
  expect(names).toMatchObject({ text: "a-lock.json\nb.txt\n", truncated: true });
});

test("a large file that only moved or has another mode is whole; names that are no UTF-8 shift nothing", async () => {
  const large = (byte: string) => `\0${byte.repeat(5000)}`;
  const { repos, worktree } = await makeWorktree({
    "logo.png": large("l"),
    "tool.bin": large("t"),
    "video.bin": large("v"),
    "a.txt": "a\n",
  });
  const { path } = worktree;
  await mkdir(join(path, "assets"));
  await rename(join(path, "logo.png"), join(path, "assets/logo.png"));
  await rename(join(path, "video.bin"), join(path, "assets/film.bin"));
  await write(path, { "assets/film.bin": large("v").replace("vv", "vw") });
  await chmod(join(path, "tool.bin"), 0o755);
  await write(path, { "a.txt": "b\n", "z.txt": "z\n" });
  for (const byte of [0xe8, 0xe9])
    await writeFile(Buffer.from(`${path}/caf${String.fromCharCode(byte)}.bin`, "latin1"), randomBytes(5000));
  const change = await ask(repos, worktree, { maxBytes: 2000 });
  const headings = change?.text.match(/^diff --git a\/\S+/gm)?.map((line) => line.slice(13));
  expect(headings).toEqual(["a.txt", "logo.png", "tool.bin", "z.txt"]);
  const left = change?.files.flatMap((file) => (file.left_out ? [file.path] : []));
  expect(left).toEqual(["assets/film.bin", "caf\ufffd.bin", "caf\ufffd.bin"]);
  expect(change).toMatchObject({ truncated: true, lossy: false });
});

test("many files that fit one by one and not together: the smallest are there, however the patch is read", () => {
  const part = (n: number) => `diff --git a/${n} b/${n}\n${"+x\n".repeat(n * 10)}`;
  const order = [9, 3, 8, 1, 7, 2, 6, 4, 5];
  const text = order.map(part).join("");
  for (const piece of [1, 7, 50, text.length]) {
    const files = order.map((n) => ({ ...changedFile, path: String(n) }));
    const reader = createPatchReader(files, 400);
    for (let at = 0; at < text.length; at += piece) reader.read(text.slice(at, at + piece));
    expect(reader.end()).toBe([3, 1, 2, 4].map(part).join(""));
    expect(files.flatMap(({ path, left_out }) => (left_out ? [path] : []))).toEqual([
      "9",
      "8",
      "7",
      "6",
      "5",
    ]);
  }
});

const changedFile = {
  path: "",
  old_path: null,
  status: "added" as const,
  insertions: 0,
  deletions: 0,
  binary: false,
  size: 0,
  left_out: false,
};

test("the diff beside a running agent has no path that is kept apart", async () => {
  const { repos, worktree } = await makeWorktree();
  await repos.keepApart(worktree, ["deps", "web/cache"]);
  await write(worktree.path, { "deps/a.js": "1\n", "web/cache/b": "1\n", "web/c.txt": "1\n" });
  expect((await ask(repos, worktree))?.files.map(({ path }) => path)).toEqual(["web/c.txt"]);
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
