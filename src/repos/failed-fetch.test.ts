import { chmod, mkdir, readdir, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { loosen, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import type { CachedRepo } from "./repos.ts";

/** Repositories with a cached clone, whose git fails a fetch as `says` has it, and leaves a part of a pack. */
const failing = async () => {
  const directory = await temporaryDirectory();
  const [says, log] = [join(directory, "says"), join(directory, "log")];
  const script = `#!/bin/sh
echo "$*" >> ${log}
case " $* " in *" fetch "*) if [ -f ${says} ]; then
  touch "$GIT_DIR/objects/pack/tmp_pack_part" "$GIT_DIR/objects/tmp_obj_part"
  cat ${says} >&2; exit 128
fi ;; esac
exec /usr/bin/git "$@"
`;
  await writeFile(join(directory, "git"), script, { mode: 0o755 });
  const { settings, remote, repo, worktree } = await makeWorktree();
  const { repos } = await makeRepos(settings, { PATH: `${directory}:${process.env["PATH"]}` });
  await write(worktree.path, { "work.txt": "work\n" });
  await salvagedRef(repos, worktree, "one", never);
  const files = async (): Promise<string[]> => readdir(repo.gitDir, { recursive: true });
  return { repos, remote, repo, says, files, log: () => read(log) };
};

const refsOf = async ({ gitDir }: CachedRepo): Promise<string> => plainGit(gitDir, "for-each-ref");

test("a cut connection, a full disk and a garbled pack leave every ref as it was and no part of a pack, and are no damage", async () => {
  const { repos, remote, repo, says, files, log } = await failing();
  const [refs, before] = [await refsOf(repo), await files()];
  await plainGit(remote.work, "push", "--quiet", remote.url, "HEAD:refs/heads/other");
  const tip = await remote.commit({ "a.txt": "1\n" });
  for (const said of [
    "error: RPC failed; curl 18 transfer closed\nfatal: early EOF\n",
    "fatal: write error: No space left on device\n",
    "fatal: pack has bad object at offset 1234: inflate returned -5\n",
  ]) {
    await writeFile(says, `${said}fatal: fetch-pack: invalid index-pack output\n`);
    await expect(fetchInto(repos, remote.url)).rejects.toMatchObject({ reason: "clone_failed" });
    expect(await refsOf(repo)).toBe(refs);
    expect((await files()).toSorted()).toEqual(before.toSorted());
  }
  await rm(says);
  expect((await fetchInto(repos, remote.url)).warnings).toEqual([]);
  expect(await plainGit(repo.gitDir, "rev-parse", "origin/main")).toBe(tip);
  expect(await log()).not.toContain("--refetch");
});

test("a damaged cached clone keeps its refs when it cannot be fetched again, and is mended later", async () => {
  const { repos, remote, repo, says } = await failing();
  const blob = await plainGit(repo.gitDir, "rev-parse", "origin/main:README.md");
  await loosen(repo.gitDir);
  const object = join(repo.gitDir, "objects", blob.slice(0, 2), blob.slice(2));
  await chmod(object, 0o644);
  await truncate(object, 0);
  const refs = await refsOf(repo);
  await writeFile(says, `error: object file is empty\nfatal: loose object ${blob} is corrupt\n`);
  await expect(fetchInto(repos, remote.url)).rejects.toMatchObject({ reason: "clone_failed" });
  expect(await refsOf(repo)).toBe(refs);
  await rm(says);
  expect(await read((await addTo(repos, await fetchInto(repos, remote.url), "two")).path, "README.md")).toBe(
    "hello\n",
  );
});

test("a branch that takes the place of a directory of branches, and the other way round, is followed", async () => {
  const { repos, repo, remote } = await makeWorktree();
  const push = (...refs: string[]): Promise<string> =>
    plainGit(remote.work, "push", "--quiet", remote.url, ...refs);
  await push("HEAD:refs/heads/topic");
  await fetchInto(repos, remote.url);
  await push(":refs/heads/topic", "HEAD:refs/heads/topic/one");
  await fetchInto(repos, remote.url);
  expect(await refsOf(repo)).toContain("refs/remotes/origin/topic/one");
  await push(":refs/heads/topic/one", "HEAD:refs/heads/topic");
  await fetchInto(repos, remote.url);
  expect(await refsOf(repo)).toMatch(/refs\/remotes\/origin\/topic$/m);
});

test("files of a killed git are in the way once at most", async () => {
  const { repos, repo, remote, worktree } = await makeWorktree();
  await plainGit(remote.work, "push", "--quiet", remote.url, "HEAD:refs/heads/gone");
  await fetchInto(repos, remote.url);
  await plainGit(repo.gitDir, "pack-refs", "--all");
  await mkdir(join(repo.gitDir, "refs/remotes/origin"), { recursive: true });
  for (const name of ["packed-refs.new", "packed-refs.lock", "shallow.lock", "refs/remotes/origin/main.lock"])
    await writeFile(join(repo.gitDir, name), "");
  await plainGit(remote.work, "push", "--quiet", remote.url, ":refs/heads/gone");
  const tip = await remote.commit({ "a.txt": "1\n" });
  await fetchInto(repos, remote.url);
  expect(
    await plainGit(repo.gitDir, "for-each-ref", "--format=%(objectname) %(refname)", "refs/remotes"),
  ).toBe(`${tip} refs/remotes/origin/main`);
  await write(worktree.path, { "work.txt": "work\n" });
  expect(await salvagedRef(repos, worktree, "one", never)).toBe("refs/service/salvage/one");
  await plainGit(repo.gitDir, "pack-refs", "--all");
  await writeFile(join(repo.gitDir, "packed-refs.new"), "");
  expect(await repos.expireRefs(new Date(Date.now() + 60_000), never)).toBe(1);
});

test("lock files of an agent's killed git keep no work from being committed, saved and pushed", async () => {
  const { repos, remote, worktree } = await makeWorktree();
  await write(worktree.path, { "work.txt": "work\n" });
  const leave = async (): Promise<void> => {
    await mkdir(join(worktree.gitDir, "refs/heads/service"), { recursive: true });
    for (const name of [
      "index.lock",
      "HEAD.lock",
      "packed-refs.new",
      "packed-refs.lock",
      "refs/heads/service/one.lock",
    ])
      await writeFile(join(worktree.gitDir, name), "");
  };
  await leave();
  expect(await salvagedRef(repos, worktree, "one", never)).toBe("refs/service/salvage/one");
  await leave();
  const tip = await repos.commitAll(worktree, "work", never);
  await leave();
  await repos.push(worktree, never);
  expect(await plainGit(remote.url, "rev-parse", "service/one")).toBe(tip);
});
