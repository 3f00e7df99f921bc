import { existsSync } from "node:fs";
import { chmod, mkdir, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { inside, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRemote, makeRepos, type Remote } from "./repos.fixture.ts";
import { startFakeGitHost } from "../../test/fake-git-host/fake-git-host.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { lockFile } from "../lib/file-lock.ts";
import type { RepoSettings } from "./git-context.ts";
import { borrowedBy, type Repos, type Worktree } from "./repos.ts";

const wanted = { submodules: true, lfs: false } as const;
const recursive = { submodules: "recursive", lfs: false } as const;

const addSubmodule = async (to: Remote, from: Remote, path: string): Promise<void> => {
  await plainGit(to.work, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", from.url, path);
  await to.commit({});
};

/** An application with the library `third party/lib`, which has the library `deps` itself. */
const makeApp = async (settings: Partial<RepoSettings> = {}) => {
  const deps = await makeRemote({ "deps.txt": "deps\n" });
  const lib = await makeRemote({ "lib.txt": "lib\n" });
  await addSubmodule(lib, deps, "deps");
  const app = await makeRemote({ "app.txt": "app\n" });
  await addSubmodule(app, lib, "third party/lib");
  const { repos, root } = await makeRepos(settings);
  return { app, lib, deps, repos, root, repo: await fetchInto(repos, app.url) };
};

const at = "third party/lib";

const stateOf = async (repos: Repos, worktree: Worktree) => ({
  kept: (await repos.inspect(worktree, never)).kept,
  dirty: (await repos.inspect(worktree, never)).dirty,
  pushed: await repos.isPushed(worktree, never),
});

const untouched = { kept: [], dirty: false, pushed: true };

test("a submodule whose line ends git reads otherwise than it wrote them is no work, and a changed file is", async () => {
  const lib = await makeRemote({ "a.dos": "one\r\n", "b c.dos": "two\r\n" });
  await writeFile(join(lib.work, ".gitattributes"), "*.dos text\n");
  await plainGit(lib.work, "add", ".gitattributes");
  await plainGit(lib.work, "commit", "--quiet", "--message", "rules");
  await plainGit(lib.work, "push", "--quiet", lib.url, "HEAD:refs/heads/main");
  const app = await makeRemote();
  await addSubmodule(app, lib, at);
  const { repos } = await makeRepos();
  const worktree = await addTo(repos, await fetchInto(repos, app.url), "one", { wanted });
  expect(await stateOf(repos, worktree)).toEqual(untouched);
  const own = { ...untouched, kept: [`submodule at ${at}`], pushed: false };
  await chmod(join(worktree.path, at, "a.dos"), 0o755);
  expect(await stateOf(repos, worktree)).toEqual(own);
  await chmod(join(worktree.path, at, "a.dos"), 0o644);
  await write(join(worktree.path, at), { "b c.dos": "three\r\n" });
  expect(await stateOf(repos, worktree)).toEqual(own);
});

test("submodules are checked out as git does it, from clones that are kept, and are no change", async () => {
  const { lib, repos, repo, root } = await makeApp();
  const worktree = await addTo(repos, repo, "one", { wanted: recursive });
  expect(worktree.warnings).toEqual([]);
  expect(await read(worktree.path, `${at}/lib.txt`)).toBe("lib\n");
  expect(await read(worktree.path, `${at}/deps/deps.txt`)).toBe("deps\n");
  const path = join(worktree.path, at);
  for (const directory of [worktree.path, path, join(path, "deps")])
    expect(await plainGit(directory, "status", "--porcelain")).toBe("");
  expect(await plainGit(path, "log", "--format=%s", "origin/main")).toContain("a change");
  // In a sandbox as well, with nothing but what the clones borrow.
  expect(await inside(worktree, "git", "-C", path, "log", "--format=%s", "origin/main")).toContain(
    "a change",
  );
  const status = await inside(worktree, "git", "submodule", "status", "--recursive");
  expect(status).toMatch(/^ \w{40} third party\/lib.*\n \w{40} third party\/lib\/deps.*\n$/);
  expect(await stateOf(repos, worktree)).toEqual(untouched);
  const caches = borrowedBy(worktree).filter((directory) => directory.startsWith(join(root, "repos")));
  expect(caches).toHaveLength(4);
  expect((await repos.findWorktree("one"))?.submodules).toEqual(worktree.submodules);
  // The remote is not needed for the next one.
  await rm(lib.work, { recursive: true });
  expect(await read((await addTo(repos, repo, "two", { wanted: recursive })).path, `${at}/lib.txt`)).toBe(
    "lib\n",
  );
});

test("those of submodules are left out with a warning, unless they are asked for, also later", async () => {
  const { repos, repo } = await makeApp();
  const without = await addTo(repos, repo, "one");
  expect(without.warnings).toEqual([
    expect.stringMatching(/^Submodules are not checked out: third party\/lib\. svc run --submodules /),
  ]);
  const worktree = await addTo(repos, repo, "one", { wanted });
  expect(worktree.warnings.at(-1)).toMatch(
    /^Submodules of the submodule third party\/lib .*--recurse-submodules/,
  );
  expect(await read(worktree.path, `${at}/lib.txt`)).toBe("lib\n");
  await addTo(repos, repo, "one", { wanted: recursive });
  expect(await read(worktree.path, `${at}/deps/deps.txt`)).toBe("deps\n");
  expect(await stateOf(repos, worktree)).toEqual(untouched);
});

test("another commit of a submodule is committed as git does it; what is only in it keeps the worktree, by name", async () => {
  const { lib, deps, repos, repo } = await makeApp();
  const worktree = await addTo(repos, repo, "one", { wanted: recursive });
  const path = join(worktree.path, at);
  const next = await lib.commit({ "lib.txt": "next\n" });
  const again = await addTo(repos, repo, "two", { wanted: recursive });
  const moved = join(again.path, at);
  await plainGit(moved, "checkout", "--quiet", next);
  const tip = await repos.commitAll(again, "the next lib", never);
  expect(await plainGit(again.path, "ls-tree", tip, `${at}`)).toContain(`160000 commit ${next}`);
  expect((await repos.inspect(again, never)).kept).toEqual([]);
  // The worktree goes on: nothing that is there is fetched or changed.
  await deps.commit({});
  expect((await addTo(repos, repo, "two", { wanted: recursive })).warnings).toEqual([]);
  expect(await read(moved, "lib.txt")).toBe("next\n");
  for (const [directory, name] of [
    [path, at],
    [join(path, "deps"), `${at}/deps`],
  ] as const) {
    await write(directory, { "new.txt": "1\n" });
    expect((await stateOf(repos, worktree)).kept).toContain(`submodule at ${name}`);
    await rm(join(directory, "new.txt"));
  }
  expect(await stateOf(repos, worktree)).toEqual(untouched);
  await plainGit(worktree.path, "clone", "--quiet", deps.url, join(path, "cloned"));
  expect((await stateOf(repos, worktree)).kept).toContain(`nested repository at ${at}/cloned`);
});

test("a copy for a job that may only read has them, at the commits of what it copies", async () => {
  const { lib, repos, repo } = await makeApp();
  const worktree = await addTo(repos, repo, "one", { wanted });
  const next = await lib.commit({ "lib.txt": "next\n" });
  await fetchInto(repos, lib.url);
  await plainGit(join(worktree.path, at), "fetch", "--quiet", lib.url);
  await plainGit(join(worktree.path, at), "checkout", "--quiet", next);
  const source = { worktree, commit: await repos.capture(worktree, never) };
  const copy = await addTo(repos, repo, "copy", { wanted, source });
  expect(await read(copy.path, `${at}/lib.txt`)).toBe("next\n");
  await repos.removeWorktree({ worktreeId: "copy" }, never);
  expect(await repos.findWorktree("copy")).toBeNull();
});

test("what a kill left half-made is made again", async () => {
  const { repos, repo } = await makeApp();
  const worktree = await addTo(repos, repo, "one");
  const stage = join(worktree.gitDir, "service-submodule");
  await mkdir(join(stage, "half"), { recursive: true });
  await mkdir(join(worktree.gitDir, "modules", at), { recursive: true });
  await writeFile(join(worktree.gitDir, "modules", at, "HEAD"), "half");
  await addTo(repos, repo, "one", { wanted: recursive });
  expect(await read(worktree.path, `${at}/deps/deps.txt`)).toBe("deps\n");
  expect(await stateOf(repos, worktree)).toEqual(untouched);
});

test("a push of others that moves a submodule which is checked out is left to the agent", async () => {
  const { app, lib, repos, repo } = await makeApp();
  const worktree = await addTo(repos, repo, "one", { wanted });
  await write(worktree.path, { "work.txt": "1\n" });
  await repos.commitAll(worktree, "work", never);
  await repos.push(worktree, never);
  await lib.commit({ "lib.txt": "next\n" });
  await plainGit(join(app.work, at), "pull", "--quiet", "origin", "main");
  await plainGit(app.work, "fetch", "--quiet", app.url, worktree.branch);
  await plainGit(app.work, "reset", "--quiet", "FETCH_HEAD");
  await app.commit({}, { branch: worktree.branch });
  await fetchInto(repos, app.url);
  const again = await addTo(repos, repo, "one", { wanted });
  expect(again.behind).toContain("merge origin/service/one");
  expect((await repos.inspect(again, never)).dirty).toBe(false);
});

test("a submodule of another owner is fetched without the token; a private one fails by name, unless its owner is named", async () => {
  await using host = await startFakeGitHost();
  const hidden = await host.createRepository("acme", "hidden", {
    private: true,
    seed: { "plan.txt": "canary\n" },
  });
  const open = await host.createRepository("acme", "open", { seed: { "open.txt": "open\n" } });
  const stranger = await host.createRepository("stranger", "app", { seed: { "app.txt": "app\n" } });
  const declare = async (name: string, { directory }: { directory: string }) => {
    const work = await temporaryDirectory();
    await plainGit(work, "clone", "--quiet", stranger.directory, ".");
    const url = `https://${host.host}/acme/${name}`;
    await write(work, { ".gitmodules": `[submodule "${name}"]\n\tpath = ${name}\n\turl = ${url}\n` });
    const tip = await plainGit(directory, "rev-parse", "HEAD");
    await plainGit(work, "update-index", "--add", "--cacheinfo", `160000,${tip},${name}`);
    await plainGit(work, "add", ".gitmodules");
    const who = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"];
    await plainGit(work, ...who, "commit", "--quiet", "--message", "declares");
    await plainGit(work, "push", "--quiet", stranger.directory, "HEAD:refs/heads/main");
  };
  const env = { PATH: process.env["PATH"], ...host.environment };
  const credentials = { gitHost: host.host, gitHostToken: host.createToken() };
  const { repos } = await makeRepos(credentials, env);
  const url = `https://${host.host}/stranger/app`;
  await declare("open", open);
  const worktree = await addTo(repos, await fetchInto(repos, url), "one", { wanted });
  expect(await read(worktree.path, "open/open.txt")).toBe("open\n");
  await declare("hidden", hidden);
  const again = async (id: string) => addTo(repos, await fetchInto(repos, url), id, { wanted });
  await expect(again("two")).rejects.toMatchObject({
    reason: "clone_failed",
    message: expect.stringMatching(/^The submodule "hidden" .* GIT_HOST_OWNERS\.$/s) as string,
  });
  const trusting = await makeRepos({ ...credentials, gitHostOwners: ["Acme"] }, env);
  const seen = await addTo(trusting.repos, await fetchInto(trusting.repos, url), "three", { wanted });
  expect(await read(seen.path, "hidden/plan.txt")).toBe("canary\n");
});

test("the token goes to the git host's own name alone; a submodule that cannot be fetched is named", async () => {
  await using host = await startFakeGitHost();
  const lib = await host.createRepository("acme", "lib", { private: true, seed: { "lib.txt": "lib\n" } });
  const open = await host.createRepository("acme", "open", { seed: { "open.txt": "open\n" } });
  const app = await host.createRepository("acme", "app", { private: true, seed: { "app.txt": "app\n" } });
  // The same server, by another name.
  const elsewhere = `https://${host.host.replace("localhost", "127.0.0.1")}/acme/`;
  const declare = async (last: string) => {
    const work = await temporaryDirectory();
    await plainGit(work, "clone", "--quiet", app.directory, ".");
    const text = [
      ["lib", "../lib"],
      ["open", `${elsewhere}open`],
      ["last", last],
    ].map(([name, url]) => `[submodule "${name}"]\n\tpath = ${name}\n\turl = ${url}\n`);
    await write(work, { ".gitmodules": text.join("") });
    for (const [name, { directory }] of [
      ["lib", lib],
      ["open", open],
      ["last", lib],
    ] as const) {
      const tip = await plainGit(directory, "rev-parse", "HEAD");
      await plainGit(work, "update-index", "--add", "--cacheinfo", `160000,${tip},${name}`);
    }
    await plainGit(work, "add", ".gitmodules");
    const who = ["-c", "user.name=someone", "-c", "user.email=someone@example.org"];
    await plainGit(work, ...who, "commit", "--quiet", "--message", "declares");
    await plainGit(work, "push", "--quiet", app.directory, "HEAD:refs/heads/main");
  };
  await declare(`https://${host.host}/acme/lib.git`);
  const env = { PATH: process.env["PATH"], ...host.environment };
  const { repos } = await makeRepos({ gitHost: host.host, gitHostToken: host.createToken() }, env);
  const url = `https://${host.host}/acme/app`;
  const worktree = await addTo(repos, await fetchInto(repos, url), "one", { wanted });
  for (const name of ["lib/lib.txt", "open/open.txt", "last/lib.txt"])
    expect(await read(worktree.path, name)).not.toBe("");
  const other = host.requests.filter((request) => request.host?.startsWith("127.0.0.1"));
  expect(other.length).toBeGreaterThan(0);
  expect(other.filter(({ authorization }) => authorization !== undefined)).toEqual([]);
  await declare(`${elsewhere}lib`);
  const running = addTo(repos, await fetchInto(repos, url), "two", { wanted });
  await expect(running).rejects.toMatchObject({
    reason: "clone_failed",
    message: expect.stringMatching(
      /^The submodule "last" .* is not to be had\. Could not fetch https:\/\/127/,
    ) as string,
  });
});

/** A repository whose `.gitmodules` is this, with a submodule at each of the paths. */
const declares = async (text: string, ...paths: string[]) => {
  const lib = await makeRemote({ "lib.txt": "lib\n" });
  const remote = await makeRemote({ "README.md": "hello\n" });
  const commit = await plainGit(lib.work, "rev-parse", "HEAD");
  await write(remote.work, { ".gitmodules": text.replaceAll("LIB", lib.url) });
  await plainGit(remote.work, "add", "--all");
  for (const path of paths)
    await plainGit(remote.work, "update-index", "--add", "--cacheinfo", `160000,${commit},${path}`);
  await plainGit(remote.work, "commit", "--quiet", "--message", "declares");
  await plainGit(remote.work, "push", "--quiet", remote.url, "HEAD:refs/heads/main");
  return { remote, lib };
};

const section = (name: string, url: string, more = ""): string =>
  `[submodule "${name}"]\n\tpath = a\n\turl = ${url}\n${more}`;

test.each([
  [section("../../x", "LIB"), /^The submodule "\.\.\/\.\.\/x" of .* name that is not allowed\nWhat to do: /],
  [section("a", "ext::sh"), /^The submodule "a" .* helper program/],
  [section("a", '"--upload-pack=x"'), /^The submodule "a" .* dash/],
  [section("a", "LIB", "\tupdate = !touch /tmp/x\n"), /^The submodule "a" .* command/],
  [section("a", "LIB") + section("a/b", "LIB").replace("= a\n", "= b\n"), /^The submodule "a\/b" .* lies in/],
  [section("a", "/nonexistent/lib"), /^The submodule "a" .* Could not fetch \/nonexistent\/lib: /],
  ["[broken", /^The \.gitmodules of .* cannot be read: .*bad config/],
])("a declaration is refused with the submodule's name: %j", async (text, said) => {
  const { remote } = await declares(text, "a", "b");
  const { repos } = await makeRepos();
  const repo = await fetchInto(repos, remote.url);
  await expect(addTo(repos, repo, "one", { wanted })).rejects.toThrow(said);
});

test("those that git leaves out are named: not declared, update = none, a commit that the remote lacks", async () => {
  const text = `${section("a", "LIB")}[submodule "b"]\n\tpath = b\n\turl = LIB\n\tupdate = none\n`;
  const { remote, lib } = await declares(text, "a", "b", "c");
  const { repos } = await makeRepos();
  const point = async (commit: string): Promise<void> => {
    await plainGit(remote.work, "update-index", "--cacheinfo", `160000,${commit},a`);
    await plainGit(remote.work, "commit", "--quiet", "--message", "points");
    await plainGit(remote.work, "push", "--quiet", remote.url, "HEAD:refs/heads/main");
  };
  await point("0123456789012345678901234567890123456789");
  const without = await addTo(repos, await fetchInto(repos, remote.url), "lacks", { wanted });
  const lacks = `${lib.url} does not have its commit 0123456789012345678901234567890123456789`;
  expect(without.warnings).toContain(`The submodule a is not checked out: ${lacks}.`);
  // On no branch any more.
  const gone = await lib.commit({ "lib.txt": "gone\n" }, { branch: "gone" });
  await plainGit(lib.url, "update-ref", "-d", "refs/heads/gone");
  await point(gone);
  const worktree = await addTo(repos, await fetchInto(repos, remote.url), "one", { wanted });
  expect(await read(worktree.path, "a/lib.txt")).toBe("gone\n");
  expect(worktree.warnings).toEqual([
    "The submodule b is not checked out: .gitmodules says update = none.",
    "The submodule c is not checked out: .gitmodules does not name it.",
  ]);
});

test("a link in the way of a submodule is not followed", async () => {
  const { repos, repo, root } = await makeApp();
  const worktree = await addTo(repos, repo, "one");
  await rm(join(worktree.path, "third party"), { recursive: true, force: true });
  await mkdir(join(root, "elsewhere"));
  await symlink(join(root, "elsewhere"), join(worktree.path, "third party"));
  await expect(addTo(repos, repo, "one", { wanted })).rejects.toThrow(
    "The submodule third party/lib is refused: there is a link or a file in its place",
  );
  await rm(join(worktree.path, "third party"));
  await symlink(join(root, "elsewhere"), join(worktree.gitDir, "modules"));
  await addTo(repos, repo, "one", { wanted });
  expect(await read(worktree.path, `${at}/lib.txt`)).toBe("lib\n");
  await expect(read(root, "elsewhere/third party")).rejects.toThrow("ENOENT");
});

test("files and bytes of all submodules count together, and a submodule of itself ends", async () => {
  const few = await makeApp({ maxRepoFiles: 7 });
  expect((await addTo(few.repos, few.repo, "one", { wanted })).warnings).toHaveLength(1);
  await expect(addTo(few.repos, few.repo, "one", { wanted: recursive })).rejects.toThrow(/more than 7 files/);
  const bomb = await makeRemote({ "README.md": "hello\n" });
  await addSubmodule(bomb, bomb, "a");
  const { repos } = await makeRepos();
  const repo = await fetchInto(repos, bomb.url);
  // Each commit has its parent as submodule: one level only.
  const worktree = await addTo(repos, repo, "one", { wanted: recursive });
  expect(await read(worktree.path, "a/README.md")).toBe("hello\n");
});

test("submodules are fetched side by side: one whose clone is locked holds up no other, and one that fails is named", async () => {
  const [first, second, third] = [await makeRemote(), await makeRemote(), await makeRemote()];
  const app = await makeRemote({ "app.txt": "app\n" });
  for (const [nth, lib] of [first, second, third].entries()) await addSubmodule(app, lib, `lib-${nth}`);
  const { repos, root } = await makeRepos();
  const repo = await fetchInto(repos, app.url);
  const cacheOf = (lib: Remote): string => join(root, "repos", repos.keyOf(repos.parseUrl(lib.url)));
  await mkdir(cacheOf(first), { recursive: true });
  const path = join(cacheOf(first), ".lock");
  const lock = await lockFile({ path, timeoutSeconds: 30, signal: never });
  const adding = addTo(repos, repo, "one", { wanted });
  await until(() => [second, third].every((lib) => existsSync(join(cacheOf(lib), "repo.git"))));
  expect(existsSync(join(cacheOf(first), "repo.git"))).toBe(false);
  await lock.release();
  const worktree = await adding;
  for (const nth of [0, 1, 2]) expect(await read(worktree.path, `lib-${nth}/README.md`)).toBe("hello\n");
  await rm(second.url, { recursive: true });
  await rm(cacheOf(second), { recursive: true });
  await expect(addTo(repos, repo, "two", { wanted })).rejects.toThrow(
    /The submodule "lib-1" .* is not to be had/,
  );
});
