import { spawnSync } from "node:child_process";
import { chmod, mkdir, readdir, rm, truncate, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { temporaryDirectory } from "../../test/temporary.ts";
import { lockFile } from "../lib/file-lock.ts";
import { loosen, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, makeRemote, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { createRepos } from "./create.ts";
import { RepoError, savedDirOf } from "./repos.ts";
import { usualWall } from "./wall.fixture.ts";

const failing = async (action: Promise<unknown>): Promise<RepoError> => {
  const error = await action.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof RepoError)) throw new Error(`expected a RepoError, got ${String(error)}`);
  return error;
};

test("a repository is cloned once and updated after that, also where a branch was force-pushed", async () => {
  const remote = await makeRemote();
  const { repos, settings } = await makeRepos();
  const repo = await fetchInto(repos, remote.url);
  expect(repo.gitDir).toBe(join(settings.reposRoot, repo.key, "repo.git"));
  expect((await readdir(join(settings.reposRoot, repo.key))).toSorted()).toEqual([".lock", "repo.git"]);
  const next = await remote.commit({ "a.txt": "1\n" });
  await plainGit(remote.work, "push", "--quiet", remote.url, "HEAD:refs/heads/other", "HEAD:refs/tags/v1");
  await fetchInto(repos, remote.url);
  expect(await plainGit(repo.gitDir, "rev-parse", "origin/main", "origin/other", "v1")).toBe(
    [next, next, next].join("\n"),
  );
  await plainGit(remote.work, "push", "--quiet", remote.url, ":refs/heads/other");
  await plainGit(remote.work, "commit", "--quiet", "--amend", "--message", "rewritten");
  const tip = await remote.commit({}, { force: true });
  await fetchInto(repos, remote.url);
  const format = "--format=%(objectname) %(refname)";
  expect(await plainGit(repo.gitDir, "for-each-ref", format, "refs/remotes")).toBe(
    `${tip} refs/remotes/origin/main`,
  );
});

test("many refs of submodules are packed and many packs become one by the next fetch, with what no ref reaches", async () => {
  const { repos, repo, remote } = await makeWorktree();
  const { gitDir } = repo;
  const tip = await plainGit(gitDir, "rev-parse", "origin/main");
  const salvage = join(gitDir, "refs/service/submodules");
  await mkdir(salvage, { recursive: true });
  await Promise.all(Array.from({ length: 200 }, (_, n) => writeFile(join(salvage, `job-${n}`), `${tip}\n`)));
  // Each checkpoint ends a pack.
  const blobs = Array.from({ length: 51 }, (_, n) => `blob\ndata 3\n${100 + n}\ncheckpoint\n`).join("");
  const importing = ["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet"];
  expect(spawnSync("git", importing, { cwd: gitDir, input: blobs })).toMatchObject({ status: 0 });
  const objects = async () => await plainGit(gitDir, "cat-file", "--batch-all-objects", "--batch-check");
  const before = await objects();
  expect(before.split("\n").length).toBeGreaterThan(51);
  const packs = async () =>
    (await readdir(join(gitDir, "objects/pack"))).filter((name) => name.endsWith(".pack")).length;
  expect(await packs()).toBeGreaterThan(50);
  await fetchInto(repos, remote.url);
  expect(await packs()).toBeLessThan(3);
  expect(await objects()).toBe(before);
  expect(await readdir(salvage).catch(() => [])).toEqual([]);
  const refs = await plainGit(gitDir, "for-each-ref", "--format=%(objectname)", "refs/service/submodules");
  expect(refs.split("\n")).toEqual(Array.from({ length: 200 }, () => tip));
});

test("what is no repository, an unreachable server and a server that wants credentials each have an error of their own, and leave nothing", async () => {
  const { repos, settings } = await makeRepos();
  const none = await failing(fetchInto(repos, await temporaryDirectory()));
  expect(none).toMatchObject({ reason: "clone_failed", retryable: false });
  expect(none.message).toMatch(
    /no git repository at this path .*\nWhat to do: Check the path, .*may read it/,
  );
  const [key = ""] = await readdir(settings.reposRoot);
  expect(await readdir(join(settings.reposRoot, key))).toEqual([".lock"]);
  const unreachable = await failing(fetchInto(repos, "http://127.0.0.1:9/acme/app"));
  expect(unreachable).toMatchObject({ reason: "clone_failed", retryable: true });
  expect(unreachable.message).toContain("the server cannot be reached");
});

test("a fetch from a shallow repository fails, also over an older cached clone", async () => {
  const { url, work, commit } = await makeRemote();
  await commit({ "a.txt": "1\n" });
  const { repos } = await makeRepos();
  const checkout = join(await temporaryDirectory(), "checkout");
  await plainGit(work, "clone", "--quiet", "--depth=1", `file://${url}`, checkout);
  const advice = /is shallow.*git fetch --unshallow/;
  await expect(fetchInto(repos, checkout)).rejects.toThrow(advice);
  await plainGit(checkout, "fetch", "--quiet", "--unshallow");
  await fetchInto(repos, checkout);
  await commit({ "a.txt": "2\n" });
  await plainGit(checkout, "fetch", "--quiet", "--depth=1", "origin", "main");
  await plainGit(checkout, "reset", "--quiet", "--hard", "FETCH_HEAD");
  await expect(fetchInto(repos, checkout)).rejects.toThrow(advice);
});

/** A git that writes none of the fetched refs, and ends well. */
const forgetfulGit = `#!/bin/sh
for last; do :; done
case " $* " in *" fetch "*) exit 0 ;; *" clone "*) exec /usr/bin/git init --quiet --bare "$last" ;; esac
exec /usr/bin/git "$@"
`;

test("a cached clone that got no branch of a remote with branches is an error", async () => {
  const bin = await temporaryDirectory();
  await writeFile(join(bin, "git"), forgetfulGit, { mode: 0o755 });
  const { repos } = await makeRepos({}, { PATH: `${bin}:${process.env["PATH"]}` });
  await expect(fetchInto(repos, (await makeRemote()).url)).rejects.toThrow("fetched none of the branches");
  await fetchInto(repos, (await makeRemote(null)).url);
});

test("a root that cannot be written to is named in the error", async () => {
  const remote = await makeRemote();
  const file = join(await temporaryDirectory(), "file");
  await writeFile(file, "");
  const { repos } = await makeRepos({ reposRoot: join(file, "repos") });
  expect((await failing(fetchInto(repos, remote.url))).message).toContain("SERVICE_REPOS_ROOT");
});

test("a full disk is named in the error", async () => {
  const bin = await temporaryDirectory();
  await writeFile(
    join(bin, "git"),
    "#!/bin/sh\necho 'fatal: write error: No space left on device' >&2; exit 128\n",
  );
  await chmod(join(bin, "git"), 0o755);
  const { repos } = await makeRepos({}, { PATH: `${bin}:${process.env["PATH"]}` });
  const error = await failing(fetchInto(repos, (await makeRemote()).url));
  expect(error.message).toContain("the disk is full");
  expect(error.retryable).toBe(true);
});

test("a missing git is named", async () => {
  const { repos } = await makeRepos({}, { PATH: await temporaryDirectory() });
  expect((await failing(fetchInto(repos, "/srv/app.git"))).message).toContain("install it (2.33 or later)");
});

test("without the lock nothing is done", async () => {
  const { settings, repo, remote } = await makeWorktree();
  const { repos } = await makeRepos({ ...settings, repoLockTimeout: 0.2 });
  await using _lock = await lockFile({
    path: join(settings.reposRoot, repo.key, ".lock"),
    timeoutSeconds: 1,
    signal: never,
  });
  await remote.commit({ "a.txt": "1\n" });
  const before = await plainGit(repo.gitDir, "rev-parse", "origin/main");
  const error = await failing(fetchInto(repos, remote.url));
  expect(error).toMatchObject({ reason: "clone_failed", retryable: true });
  expect(error.message).toContain("was in use by others for 0.2 s");
  expect(await plainGit(repo.gitDir, "rev-parse", "origin/main")).toBe(before);
});

test("an aborted fetch ends with the signal's reason", async () => {
  const { repos } = await makeRepos();
  const stop = new AbortController();
  stop.abort(new Error("cancelled"));
  const { url } = await makeRemote();
  await expect(repos.fetch({ url, jobId: "job", signal: stop.signal })).rejects.toThrow("cancelled");
});

test("half-made clones and old lock files that a crash left are removed", async () => {
  // As after a restart: nothing is remembered.
  const { repos, repo, remote, settings } = await makeWorktree();
  const cache = join(settings.reposRoot, repo.key);
  await mkdir(join(cache, "clone-left"));
  const lock = join(repo.gitDir, "refs/remotes/origin/main.lock");
  await mkdir(dirname(lock), { recursive: true });
  await writeFile(lock, "");
  const longAgo = new Date(Date.now() - 60_000);
  await utimes(lock, longAgo, longAgo);
  const tip = await remote.commit({ "a.txt": "1\n" });
  await fetchInto(repos, remote.url);
  expect(await plainGit(repo.gitDir, "rev-parse", "origin/main")).toBe(tip);
  expect((await readdir(cache)).toSorted()).toEqual([".lock", "repo.git"]);
});

test("a damaged cache is cloned anew with its own branches and salvage refs, and the old one is set aside", async () => {
  const files = Object.fromEntries(
    Array.from({ length: 150 }, (_, index) => [`f${index}.txt`, `${index}\n`]),
  );
  const { repos, repo, remote, worktree } = await makeWorktree(files);
  await write(worktree.path, { "work.txt": "work\n" });
  const tip = await repos.commitAll(worktree, "work", never);
  await write(worktree.path, { "more.txt": "more\n" });
  await salvagedRef(repos, worktree, "one", never);

  const packs = join(repo.gitDir, "objects/pack");
  const [pack = ""] = (await readdir(packs)).filter((name) => name.endsWith(".pack"));
  await chmod(join(packs, pack), 0o644);
  await truncate(join(packs, pack), 100);
  await truncate(join(repo.gitDir, "HEAD"), 0);
  await mkdir(join(repo.gitDir, "refs/remotes/origin"), { recursive: true });
  await writeFile(join(repo.gitDir, "refs/remotes/origin/main"), "");
  await remote.commit({ "next.txt": "next\n" });

  const again = await fetchInto(repos, remote.url);
  const old = (await repos.cacheUsage(never))[0]?.damaged[0];
  expect(again.warnings).toEqual([
    `The cached clone of ${remote.url} was damaged and has been cloned anew. The old one is ${old}.`,
  ]);
  expect(old).toMatch(new RegExp(`/${repo.key}/damaged-\\d{8}T\\d{6}Z\\.git$`));
  expect(await readdir(join(String(old), "objects/pack"))).toContain(pack);
  const other = await addTo(repos, again, "two");
  expect(await read(other.path, "next.txt")).toBe("next\n");
  expect(await read(other.path, "f149.txt")).toBe("149\n");
  const saved = savedDirOf(repo.gitDir);
  expect(await plainGit(saved, "rev-parse", "service/one")).toBe(tip);
  // Other agents read the clone.
  await expect(plainGit(repo.gitDir, "cat-file", "-e", tip)).rejects.toThrow("Command failed");
  expect(await plainGit(saved, "show", "refs/service/salvage/one:more.txt")).toBe("more");
  expect(await plainGit(worktree.path, "status", "--porcelain")).toContain("more.txt");
});

test("of damaged saved work the part that cannot be read is named, and all other is kept", async () => {
  const { repos: first, repo, remote, worktree, settings } = await makeWorktree();
  const lost: [string, string][] = [];
  const repos = createRepos({
    settings,
    env: process.env,
    confine: usualWall,
    onLost: (...told) => lost.push(told),
  });
  // The base of the worktree is not on the remote any more.
  const base = String(worktree.baseSha);
  await plainGit(remote.work, "commit", "--quiet", "--amend", "--message", "rewritten");
  await remote.commit({}, { force: true });
  const saved = savedDirOf(repo.gitDir);
  const packs = async (): Promise<string[]> =>
    (await Promise.all([saved, worktree.ownDir].map(packsIn))).flat();
  let before: string[] = [];
  for (const job of ["good", "bad"]) {
    before = await packs();
    await write(worktree.path, { "work.txt": `${job}\n` });
    await salvagedRef(first, worktree, job, never);
  }
  const blob = await plainGit(saved, "rev-parse", "refs/service/salvage/bad:work.txt");
  for (const pack of await packs()) if (!before.includes(pack)) await rm(pack);
  expect(await plainGit(worktree.ownDir, "cat-file", "-e", blob).catch(() => "lost")).toBe("lost");
  await writeFile(join(saved, "packed-refs"), "garbage\n");
  const again = await fetchInto(repos, remote.url);
  const ref = "refs/service/salvage/bad";
  expect(again.warnings).toEqual([expect.stringContaining(`could not be read: ${ref}. The old one is`)]);
  expect(lost).toEqual([[ref, expect.stringContaining(`The saved work ${ref} could not be read`)]]);
  expect(await plainGit(saved, "show", "refs/service/salvage/good:work.txt")).toBe("good");
  expect(await plainGit(saved, "cat-file", "-t", base)).toBe("commit");
  await rm(String((await repos.cacheUsage(never))[0]?.damaged[0]), { recursive: true });
  expect(await repos.inspect(worktree, never)).toMatchObject({ dirty: true, ahead: 0 });
});

const packsIn = async (gitDir: string): Promise<string[]> => {
  const packs = join(gitDir, "objects/pack");
  return (await readdir(packs).catch(() => [])).map((name) => join(packs, name));
};

test("damage that only the checkout finds is repaired too", async () => {
  const { repos, repo } = await makeWorktree();
  const blob = await plainGit(repo.gitDir, "rev-parse", "origin/main:README.md");
  await loosen(repo.gitDir);
  await rm(join(repo.gitDir, "objects", blob.slice(0, 2), blob.slice(2)), { force: true });
  const worktree = await addTo(repos, repo, "two");
  expect(await read(worktree.path, "README.md")).toBe("hello\n");
  expect(worktree.warnings).toEqual([expect.stringContaining("cloned anew")]);
});

test("a history that an agent's shallow fetch cut is completed", async () => {
  const { repos, repo, remote, worktree } = await makeWorktree();
  await remote.commit({ "a.txt": "1\n" });
  await remote.commit({ "a.txt": "2\n" });
  await plainGit(
    worktree.path,
    "fetch",
    "--quiet",
    "--depth=1",
    `file://${remote.url}`,
    "+main:refs/remotes/origin/main",
  );
  expect(await plainGit(repo.gitDir, "rev-list", "--count", "origin/main")).toBe("1");
  await fetchInto(repos, remote.url);
  expect(await plainGit(repo.gitDir, "rev-list", "--count", "origin/main")).toBe("3");
});

test("thousands of refs are one file after the first fetch, and what later ones bring is packed with it", async () => {
  const remote = await makeRemote();
  const tip = await plainGit(remote.url, "rev-parse", "main");
  const addRefs = async (count: number, kind: string): Promise<void> => {
    const names = Array.from({ length: count }, (_, n) => `create refs/${kind}${n % 50}/ü-${n} ${tip}\n`);
    spawnSync("git", ["update-ref", "--stdin"], { cwd: remote.url, input: names.join("") });
    await plainGit(remote.url, "pack-refs", "--all");
  };
  await addRefs(1500, "heads/user");
  await addRefs(1500, "tags/v");
  const { repos } = await makeRepos();
  const { gitDir } = await fetchInto(repos, remote.url);
  const files = async (): Promise<number> => {
    const all = await readdir(join(gitDir, "refs"), { recursive: true, withFileTypes: true });
    return all.filter((entry) => entry.isFile()).length;
  };
  const refs = async (): Promise<string[]> =>
    (await plainGit(gitDir, "for-each-ref", "--format=%(refname)")).split("\n");
  expect(await files()).toBe(0);
  expect(await refs()).toHaveLength(3001);
  expect(await refs()).toContain("refs/remotes/origin/user7/ü-7");
  expect((await refs()).some((name) => name.startsWith("refs/heads/"))).toBe(false);
  await addRefs(300, "heads/later");
  await plainGit(remote.url, "update-ref", "-d", "refs/heads/user7/ü-7");
  await remote.commit({ "b.txt": "1\n" });
  await fetchInto(repos, remote.url);
  expect(await files()).toBe(0);
  expect(await refs()).toHaveLength(3300);
  // Objects too: git reads loose ones far more slowly.
  expect((await readdir(join(gitDir, "objects"))).toSorted()).toEqual(["info", "pack"]);
});
