import { lutimes, readFile, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { git, makeRemote } from "../../test/remote.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { until } from "../../test/until.ts";
import { createLog } from "../lib/log.ts";
import { never } from "../repos/plain-git.fixture.ts";
import { makeRepos } from "../repos/repos.fixture.ts";
import { createCompanions, type Companions } from "./companions.ts";

const none = {
  hooksPath: null,
  hooksUrl: null,
  hooksBranch: "",
  bundleUrl: null,
  bundleSyncInterval: 0,
  hubPath: null,
  hubUrl: null,
  hubSyncInterval: 0,
};

const make = async (
  settings: Partial<typeof none | Record<keyof typeof none, string | number>>,
  { directory, limits = {} }: { directory?: string; limits?: { maxRepoFiles?: number } } = {},
) => {
  const { repos } = await makeRepos(limits);
  const into = directory ?? (await temporaryDirectory());
  const companions = createCompanions({
    settings: { ...none, ...settings } as typeof none,
    directory: into,
    checkOut: repos.checkOutFiles,
    now: () => new Date(),
    log: createLog("silent", (text) => text),
  });
  return { companions, directory: into };
};

const commit = async (work: string, file: string, content: string): Promise<void> => {
  await git(work, "checkout", "--quiet", "-B", "main");
  await git(work, "config", "user.name", "x");
  await writeFile(join(work, file), content);
  await git(work, "add", "--all");
  await git(work, "commit", "--quiet", "--allow-empty", "--message=Change");
  await git(work, "push", "--quiet", "--force", "../remote.git", "main");
};

const contentOf = async ({ files }: Companions, target: "hooks" | "bundle" | "hub", name: string) => {
  const found = await files(target);
  return found === null ? null : await readFile(join(found.path, name), "utf8").catch(() => "missing");
};

const sync = async ({ sync: run }: Companions, target: "hooks" | "bundle" | "hub") =>
  (await run([target], never))[target];

test("a companion is fetched at start and by a sync; the files that were read before stay as they are", async () => {
  const remote = await makeRemote({ "a.txt": "one" });
  const { companions } = await make({ bundleUrl: remote.path });
  await companions.start();
  const before = await companions.files("bundle");
  expect(before?.label).toMatch(new RegExp(`^${remote.path}@[0-9a-f]{7}$`));
  expect(await contentOf(companions, "bundle", "a.txt")).toBe("one");
  await commit(remote.work, "a.txt", "two");
  expect(await sync(companions, "bundle")).toBe("ok");
  expect(await contentOf(companions, "bundle", "a.txt")).toBe("two");
  expect(await readFile(join(before?.path ?? "", "a.txt"), "utf8")).toBe("one");
  await companions.stop();
});

test("bundle and hub are refreshed in the background, hooks is not", async () => {
  const remote = await makeRemote({ "a.txt": "one" });
  const url = remote.path;
  const { companions } = await make({
    hooksUrl: url,
    bundleUrl: url,
    hubUrl: url,
    bundleSyncInterval: 1,
    hubSyncInterval: 1,
  });
  await companions.start();
  await commit(remote.work, "a.txt", "two");
  await until(async () => (await contentOf(companions, "bundle", "a.txt")) === "two");
  await until(async () => (await contentOf(companions, "hub", "a.txt")) === "two");
  expect(await contentOf(companions, "hooks", "a.txt")).toBe("one");
  await companions.stop();
});

test("without a URL, or with a path, there is nothing to fetch", async () => {
  const path = await temporaryDirectory();
  const { companions } = await make({ hooksPath: path, hooksUrl: "https://nowhere.invalid/x" });
  await companions.start();
  expect(await companions.sync(["hooks", "bundle", "hub"], never)).toEqual({
    hooks: "skipped (path)",
    bundle: "skipped (no url)",
    hub: "skipped (no url)",
  });
  expect(await companions.files("hooks")).toEqual({ path, label: null });
  expect(await companions.states()).toEqual([]);
  await companions.stop();
});

test("a remote that is down, emptied or too large leaves the last checkout, with its age", async () => {
  const remote = await makeRemote({ "a.txt": "one" });
  const directory = await temporaryDirectory();
  const { companions } = await make({ hubUrl: remote.path }, { directory, limits: { maxRepoFiles: 3 } });
  await companions.start();
  const state = async () => (await companions.states())[0];
  expect(await state()).toMatchObject({ target: "hub", failing: false, ageSeconds: expect.any(Number) });
  const links = (await readdir(directory)).map((name) => join(directory, name, "current"));
  for (const link of links) await lutimes(link, new Date(0), new Date(Date.now() - 3_600_000));

  for (const name of ["b", "c", "d"]) await commit(remote.work, `${name}.txt`, "more");
  expect(await sync(companions, "hub")).toMatch(/^error: .*more than 3 files.*SERVICE_MAX_REPO_FILES/);
  await git(remote.path, "update-ref", "-d", "refs/heads/main");
  expect(await sync(companions, "hub")).toMatch(/^error: .*has no commit/);
  await rm(remote.path, { recursive: true });
  expect(await sync(companions, "hub")).toMatch(/^error: /);
  expect(await contentOf(companions, "hub", "a.txt")).toBe("one");
  const { ageSeconds = 0, failing } = (await state()) ?? {};
  expect([failing, Math.round((ageSeconds ?? 0) / 60)]).toEqual([true, 60]);
  await companions.stop();

  const { companions: restarted } = await make({ hubUrl: remote.path }, { directory });
  await restarted.start();
  expect(await contentOf(restarted, "hub", "a.txt")).toBe("one");
  await restarted.stop();
});

test("a branch or tag of the hook package is checked out; a rewritten branch too", async () => {
  const remote = await makeRemote({ "a.txt": "one" });
  await git(remote.work, "push", "--quiet", "../remote.git", "main:stable");
  await commit(remote.work, "a.txt", "two");
  const { companions } = await make({ hooksUrl: remote.path, hooksBranch: "stable" });
  await companions.start();
  expect(await contentOf(companions, "hooks", "a.txt")).toBe("one");
  await git(remote.work, "push", "--quiet", "--force", "../remote.git", "main:stable");
  expect(await sync(companions, "hooks")).toBe("ok");
  expect(await contentOf(companions, "hooks", "a.txt")).toBe("two");
  const { companions: missing } = await make({ hooksUrl: remote.path, hooksBranch: "none" });
  expect(await sync(missing, "hooks")).toMatch(/^error: .*no branch or tag "none"/);
  await companions.stop();
});

test("syncs at the same time, in two services of one user, end with one state; old checkouts are removed later", async () => {
  const remote = await makeRemote({ "a.txt": "one" });
  const directory = await temporaryDirectory();
  const url = remote.path;
  const [first, second] = await Promise.all([
    make({ hubUrl: url }, { directory }),
    make({ hubUrl: url }, { directory }),
  ]);
  for (const content of ["two", "three"]) {
    await commit(remote.work, "a.txt", content);
    const runs = [first, second, first, second].map(({ companions }) => sync(companions, "hub"));
    expect(await Promise.all(runs)).toEqual(["ok", "ok", "ok", "ok"]);
    expect(await contentOf(second.companions, "hub", "a.txt")).toBe(content);
  }
  const [own = ""] = (await readdir(directory)).map((name) => join(directory, name));
  const checkouts = async () => (await readdir(own)).filter((name) => /^[0-9a-f]{40}$/.test(name));
  expect(await checkouts()).toHaveLength(2);
  const past = new Date(Date.now() - 700_000);
  for (const name of await checkouts()) await utimes(join(own, name), past, past);
  await commit(remote.work, "a.txt", "four");
  await sync(first.companions, "hub");
  // The one that was just replaced stays for those that read it.
  expect(await checkouts()).toHaveLength(2);
});
