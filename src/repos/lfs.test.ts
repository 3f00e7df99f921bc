import { createHash } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inside, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRemote, makeRepos } from "./repos.fixture.ts";

const content = "the content\n";
const oid = createHash("sha256").update(content).digest("hex");
const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${oid}\nsize ${content.length}\n`;

/** A worktree whose cached clone has the content of its file in Git LFS. */
const withContent = async () => {
  const attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n";
  const remote = await makeRemote({ ".gitattributes": attributes, "sub/a.bin": pointer, "b.bin": pointer });
  const { repos } = await makeRepos();
  const repo = await fetchInto(repos, remote.url);
  const place = join(repo.gitDir, "lfs/objects", oid.slice(0, 2), oid.slice(2, 4));
  await mkdir(place, { recursive: true });
  await writeFile(join(place, oid), content);
  return { repos, worktree: await addTo(repos, repo, "one") };
};

test("Git LFS finds content in the cached clone, and files that it fills are no change", async () => {
  const { repos, worktree } = await withContent();
  await inside(worktree, "git", "lfs", "checkout");
  expect(await read(worktree.path, "sub/a.bin")).toBe(content);
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: false, paths: [], kept: [] });
  expect(await repos.isPushed(worktree, never)).toBe(true);
  await write(worktree.path, { "work.txt": "1\n", "b.bin": "other\n" });
  await repos.commitAll(worktree, "work", never);
  expect(await plainGit(worktree.path, "show", "HEAD:sub/a.bin")).toBe(pointer.trim());
  expect(await plainGit(worktree.path, "show", "--name-only", "--format=", "HEAD")).toBe("b.bin\nwork.txt");
  expect(await read(worktree.path, "sub/a.bin")).toBe(content);
  // What the agent changes next is seen.
  await write(worktree.path, { "sub/a.bin": "the CONTENT\n" });
  expect(await repos.inspect(worktree, never)).toMatchObject({
    paths: expect.arrayContaining(["sub/a.bin"]) as string[],
  });
  expect(await plainGit(worktree.path, "ls-files", "-v")).not.toContain("S ");
});
