import { chmod, readdir, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import {
  addTo,
  fetchInto,
  makeRepos,
  makeWorktree,
  never,
  plainGit,
  read,
  salvagedRef,
  write,
} from "./repos.fixture.ts";
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
