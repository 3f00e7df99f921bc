import { createHash } from "node:crypto";
import { chmod, copyFile, mkdir, readFile, rename, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inside, never, plainGit, read, write } from "./plain-git.fixture.ts";
import type { RepoSettings } from "./git-context.ts";
import { addTo, fetchInto, makeRemote, makeRepos, makeWorktree } from "./repos.fixture.ts";

const rules = `*.dos text
*.bat text eol=crlf
*.id ident
*.utf16 text working-tree-encoding=UTF-16LE
*.filtered filter=nowhere text
`;

/** Files that git reads back otherwise than it wrote them. */
const odd = {
  "a.dos": "one\r\ntwo\r\n",
  "b.bat": "echo\r\n",
  "c.id": "$Id: of long ago $\n",
  "d.filtered": "x\r\n",
};

/** A worktree of a repository whose files were committed before its rules were. */
const withOddFiles = async () => {
  const remote = await makeRemote({ ...odd, "plain.txt": "plain\n" });
  await writeFile(join(remote.work, ".gitattributes"), rules);
  await plainGit(remote.work, "add", ".gitattributes");
  await plainGit(remote.work, "commit", "--quiet", "--message", "rules");
  await plainGit(remote.work, "push", "--quiet", remote.url, "HEAD:refs/heads/main");
  const { repos } = await makeRepos();
  const repo = await fetchInto(repos, remote.url);
  return { repos, repo, worktree: await addTo(repos, repo, "one") };
};

const commitAs = (path: string) =>
  plainGit(path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--all", "--message", "x");

test("files that nobody touched are no change, whatever git makes of their bytes, and a touched one is", async () => {
  const { repos, worktree } = await withOddFiles();
  const { path } = worktree;
  const unchanged = { dirty: false, paths: [], ahead: 0 };
  expect(await repos.inspect(worktree, never)).toMatchObject(unchanged);
  expect(await repos.isPushed(worktree, never)).toBe(true);
  // Written again as they were, as a formatter does or `git stash` and back.
  for (const name of Object.keys(odd)) {
    await writeFile(join(path, name), await readFile(join(path, name)));
    await utimes(join(path, name), new Date(), new Date(Date.now() + 5000));
  }
  await plainGit(path, "add", "a.dos");
  expect(await repos.inspect(worktree, never)).toMatchObject(unchanged);
  await write(path, { "a.dos": "one\r\nthree\r\n", "new.dos": "new\r\n" });
  await chmod(join(path, "b.bat"), 0o755);
  await repos.commitAll(worktree, "work", never);
  const changed = await plainGit(path, "diff", "--name-only", "HEAD~1", "HEAD");
  expect(changed).toBe("a.dos\nb.bat\nnew.dos");
  expect(await plainGit(path, "diff", "--numstat", "HEAD~1", "HEAD", "--", "b.bat")).toBe("0\t0\tb.bat");
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false, ahead: 1 });
});

test("the agent's own git commits no file that nobody touched", async () => {
  const { repos, worktree } = await withOddFiles();
  expect(await plainGit(worktree.path, "status", "--porcelain")).toBe("");
  await write(worktree.path, { "plain.txt": "work\n" });
  await commitAs(worktree.path);
  expect(await plainGit(worktree.path, "show", "--name-only", "--format=", "HEAD")).toBe("plain.txt");
  expect(await repos.inspect(worktree, never)).toMatchObject({
    dirty: false,
    ahead: 1,
    paths: ["plain.txt"],
  });
});

test("nor does a follow-up's git after a commit of the service, or after its checks", async () => {
  const { repos, worktree, repo } = await withOddFiles();
  const { path } = worktree;
  const touch = async () => {
    for (const name of ["a.dos", "c.id"]) {
      await writeFile(join(path, name), await readFile(join(path, name)));
      await utimes(join(path, name), new Date(), new Date(Date.now() - 60_000));
    }
  };
  await touch();
  await write(path, { "plain.txt": "work\n" });
  const tip = await repos.commitAll(worktree, "work", never);
  expect(await plainGit(path, "show", "--name-only", "--format=", "HEAD")).toBe("plain.txt");
  await addTo(repos, repo, "one");
  expect(await plainGit(path, "status", "--porcelain")).toBe("");
  await touch();
  await repos.checkOutCommit(worktree, { commit: tip, tip }, never);
  expect(await plainGit(path, "status", "--porcelain")).toBe("");
  await write(path, { "plain.txt": "more\n" });
  await commitAs(path);
  expect(await plainGit(path, "show", "--name-only", "--format=", "HEAD")).toBe("plain.txt");
});

test.each([["left uncommitted"], ["committed before"]])(
  "line ends that an agent normalises by new rules, %s, are its change; files under those rules alone are none",
  async (how) => {
    const { repos, worktree } = await makeWorktree({
      "a.txt": "1\r\n",
      "b.id": "$Id: 1 $\n",
      "c.txt": "2\r\n",
    });
    const { path } = worktree;
    await write(path, { ".gitattributes": "*.txt text eol=crlf\n*.id ident\n" });
    await writeFile(join(path, "c.txt"), await readFile(join(path, "c.txt")));
    if (how === "committed before") {
      await plainGit(path, "add", ".gitattributes");
      await plainGit(
        path,
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@b",
        "commit",
        "--quiet",
        "--message",
        "x",
      );
    }
    await plainGit(path, "add", "--renormalize", "a.txt", "b.id");
    await repos.commitAll(worktree, "work", never);
    const changed = await plainGit(path, "diff", "--name-only", `${worktree.baseSha}`, "HEAD");
    expect(changed).toBe(".gitattributes\na.txt\nb.id");
    expect(await plainGit(path, "cat-file", "-s", "HEAD:a.txt")).toBe("2");
    expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false });
  },
);

const pointerOf = (content: string): string =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${oidOf(content)}\nsize ${content.length}\n`;
const oidOf = (content: string): string => createHash("sha256").update(content).digest("hex");
const attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n";

/** A worktree whose files in Git LFS are filled. */
const withFilled = async (contents: Record<string, string>, settings: Partial<RepoSettings> = {}) => {
  const pointers = Object.entries(contents).map(([name, content]) => [name, pointerOf(content)]);
  const remote = await makeRemote({ ".gitattributes": attributes, ...Object.fromEntries(pointers) });
  const { repos } = await makeRepos(settings);
  const repo = await fetchInto(repos, remote.url);
  for (const content of Object.values(contents)) {
    const oid = oidOf(content);
    const place = join(repo.gitDir, "lfs/objects", oid.slice(0, 2), oid.slice(2, 4));
    await mkdir(place, { recursive: true });
    await writeFile(join(place, oid), content);
  }
  const worktree = await addTo(repos, repo, "one");
  await inside(worktree, "git", "lfs", "checkout");
  return { repos, worktree };
};

test("a directory of Git LFS with more bytes than one save takes is moved whole; only new content is left out", async () => {
  const names = ["0", "1", "2", "3"];
  const assets = names.map((name) => [`assets/${name}.bin`, `${name} content\n`.repeat(7000)]);
  const { repos, worktree } = await withFilled(Object.fromEntries(assets), { maxRepoBytes: 200_000 });
  const { path } = worktree;
  await rename(join(path, "assets"), join(path, "art"));
  await chmod(join(path, "art/3.bin"), 0o755);
  await write(path, { "art/new.bin": "9 content\n".repeat(8000), "other.dat": "x".repeat(210_000) });
  const { kept } = await repos.inspect(worktree, never);
  expect(kept.map((each) => each.split(": ")[1])).toEqual(["art/new.bin", "other.dat"]);
  await repos.commitAll(worktree, "work", never);
  const moved = names.map((name) => `R100\tassets/${name}.bin\tart/${name}.bin`);
  expect(await plainGit(path, "diff", "--name-status", "HEAD~1", "HEAD")).toBe(moved.join("\n"));
  expect(await plainGit(path, "ls-tree", "HEAD", "art/3.bin")).toMatch(/^100755/);
});

const content = "the content of a large file\n".repeat(50);
const pointer = pointerOf(content);

test("a file of Git LFS that is moved, copied or gets another mode stays a pointer; a changed one is committed as it is", async () => {
  const names = ["a.bin", "b.bin", "c.bin", "d.bin"];
  const { repos, worktree } = await withFilled(Object.fromEntries(names.map((name) => [name, content])));
  const { path } = worktree;
  expect(await read(path, "a.bin")).toBe(content);
  await mkdir(join(path, "art"));
  await rename(join(path, "a.bin"), join(path, "art/a.bin"));
  await copyFile(join(path, "b.bin"), join(path, "copy of b.bin"));
  await chmod(join(path, "c.bin"), 0o755);
  await write(path, { "d.bin": `${content}changed\n` });
  await repos.commitAll(worktree, "work", never);
  for (const name of ["art/a.bin", "b.bin", "copy of b.bin", "c.bin"])
    expect(await plainGit(path, "show", `HEAD:${name}`)).toBe(pointer.trim());
  expect(await plainGit(path, "ls-tree", "HEAD", "c.bin")).toMatch(/^100755/);
  expect(await plainGit(path, "show", "HEAD:d.bin")).toContain("changed");
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false });
});
