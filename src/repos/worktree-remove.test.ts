import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readdir, rename, rm, symlink, writeFile, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, makeWorktree, salvagedRef } from "./repos.fixture.ts";
import { temporaryDirectory } from "../../test/temporary.ts";
import { removeTree } from "../lib/remove-tree.ts";

type Made = Awaited<ReturnType<typeof makeWorktree>>;

const branches = (gitDir: string): Promise<string> =>
  plainGit(gitDir, "for-each-ref", "--format=%(refname:short)", "refs/heads");

/** What the service has under its two roots. */
const left = async ({ settings, repo }: Made) => ({
  root: (await readdir(settings.worktreeRoot)).toSorted(),
  owned: (await readdir(join(settings.worktreeRoot, ".owned"))).toSorted(),
  branches: await branches(repo.gitDir),
});

const nothing = { root: [".owned"], owned: [], branches: "" };

test("a removal deletes directory and owner file, and can be repeated", async () => {
  const made = await makeWorktree();
  const { repos, worktree } = made;
  expect(await repos.findWorktree("one")).toEqual(worktree);
  await repos.removeWorktree(worktree, never);
  expect(await left(made)).toEqual(nothing);
  await repos.removeWorktree(worktree, never);
  expect(await repos.findWorktree("one")).toBeNull();
});

/** What a removal does, step by step: killed after any of them, it is as if the steps up to it had been done by hand. */
const steps: [string, (made: Made) => Promise<unknown>][] = [
  ["the start", async () => undefined],
  [
    "the directory was renamed",
    ({ worktree, settings }) => rename(worktree.path, join(settings.worktreeRoot, ".owned/one.trash")),
  ],
  [
    "half of the directory was removed",
    ({ settings }) => rm(join(settings.worktreeRoot, ".owned/one.trash/README.md")),
  ],
  [
    "the directory was removed",
    ({ settings }) => rm(join(settings.worktreeRoot, ".owned/one.trash"), { recursive: true }),
  ],
];

const interrupted = async (count: number): Promise<Made> => {
  const made = await makeWorktree();
  for (const [, step] of steps.slice(0, count)) await step(made);
  return made;
};

test.each(steps.map(([name], nth) => [name, nth + 1] as const))(
  "a removal that was killed when %s is finished by the next, or made good by the next checkout",
  async (_, count) => {
    const made = await interrupted(count);
    expect(await made.repos.listWorktreeIds()).toEqual(["one"]);
    await made.repos.removeWorktree(made.worktree, never);
    expect(await left(made)).toEqual(nothing);

    const again = await interrupted(count);
    const { repos, repo, worktree } = again;
    expect(await addTo(repos, repo, "one")).toEqual(worktree);
    expect(await plainGit(worktree.path, "status", "--short", "--branch")).toBe("## service/one");
    expect(await read(worktree.path, "README.md")).toBe("hello\n");
    await repos.removeWorktree(worktree, never);
    expect(await left(again)).toEqual(nothing);
  },
);

test("two removals at once, and one of a worktree that is made again, leave nothing half done", async () => {
  const made = await makeWorktree();
  const { repos, repo, worktree } = made;
  await Promise.all([
    repos.removeWorktree(worktree, never),
    repos.removeWorktree(worktree, never),
    addTo(repos, repo, "one"),
  ]);
  const found = await repos.findWorktree("one");
  const standing = found === null ? [] : [found];
  for (const { path } of standing)
    expect(await plainGit(path, "status", "--short", "--branch")).toBe("## service/one");
  await repos.removeWorktree(worktree, never);
  expect(await left(made)).toEqual(nothing);
});

test("only what has an owner file is removed, and no link is followed", async () => {
  const { repos, worktree, settings, root } = await makeWorktree();
  const precious = join(root, "precious");
  await mkdir(precious);
  await write(precious, { "file.txt": "x" });
  await mkdir(join(settings.worktreeRoot, "foreign"));
  await repos.removeWorktree({ worktreeId: "foreign" }, never);
  await repos.removeWorktree({ worktreeId: "../precious" }, never);
  expect(await repos.findWorktree("../precious")).toBeNull();
  await rm(worktree.path, { recursive: true });
  await symlink(precious, worktree.path);
  expect(await salvagedRef(repos, worktree, "job", never)).toBeNull();
  await repos.removeWorktree(worktree, never);
  expect(await readdir(settings.worktreeRoot)).toEqual([".owned", "foreign"]);
  expect(await read(precious, "file.txt")).toBe("x");
});

test.for<[string, (path: string, marker: string, precious: string) => Promise<unknown>]>([
  ["a directory", (path) => write(path, { "mine.txt": "x" })],
  ["a file", (path) => writeFile(path, "mine")],
  ["a link", (path, _, precious) => symlink(precious, path)],
  [
    "an owner file of a newer version, with its directory",
    async (path, marker) => {
      await write(path, { "mine.txt": "x" });
      await writeFile(marker, '{"version": 3, "ready": true, "worktree": {"worktreeId": "two"}}');
    },
  ],
  [
    "the owner file of another worktree",
    async (path, marker) => {
      await write(path, { "mine.txt": "x" });
      await writeFile(marker, await read(marker.replace("two.json", "one.json")));
    },
  ],
])("%s with the name of an id that is not the service's is neither removed nor reused", async ([, put]) => {
  const refusal = /exists and is not the service's/;
  const { repos, repo, worktree, settings, root } = await makeWorktree();
  const precious = join(root, "precious");
  await write(precious, { "file.txt": "x" });
  const path = join(settings.worktreeRoot, "two");
  await put(path, join(settings.worktreeRoot, ".owned/two.json"), precious);
  const before = await plainGit(root, "hash-object", "--no-filters", ...(await allFiles(root)));
  const foreign = { ...worktree, worktreeId: "two", path, gitDir: join(path, ".git") };
  await repos.removeWorktree(foreign, never);
  await expect(addTo(repos, repo, "two")).rejects.toThrow(refusal);
  await expect(addTo(repos, null, "two")).rejects.toThrow(refusal);
  expect(await repos.readWorktree("two")).toBeNull();
  expect(await repos.findWorktree("two")).toBeNull();
  expect(await plainGit(root, "hash-object", "--no-filters", ...(await allFiles(root)))).toBe(before);
});

test("a tree deeper than the path limit is removed completely", async () => {
  const { repos, worktree } = await makeWorktree();
  const dig = `for (let i = 0; i < 40; i += 1) { fs.mkdirSync("${"d".repeat(200)}"); process.chdir("${"d".repeat(200)}"); }`;
  await promisify(execFile)(process.execPath, ["-e", dig], { cwd: worktree.path });
  await repos.removeWorktree(worktree, never);
  expect(existsSync(worktree.path)).toBe(false);
  expect(await repos.readWorktree(worktree.worktreeId)).toBeNull();
});

test("unfinished owner files that a kill left are removed, and nothing else", async () => {
  const { repos, settings, worktree } = await makeWorktree();
  const owned = join(settings.worktreeRoot, ".owned");
  const kept = await readdir(owned);
  await write(owned, { ".two.json.12.3.tmp": "{" });
  await repos.clearRoot();
  expect(await readdir(owned)).toEqual(kept);
  expect((await repos.readWorktree(worktree.worktreeId))?.directoryExists).toBe(true);
});

/** Of the roots without what git keeps. */
const allFiles = async (root: string): Promise<string[]> => {
  const entries = await readdir(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile() && !entry.parentPath.includes("/repos/"))
    .map((entry) => join(entry.parentPath, entry.name))
    .toSorted();
};

test("a tree with any names is removed completely, and links are not followed", async () => {
  const root = await temporaryDirectory();
  const [tree, elsewhere] = [join(root, "-rf tree\n"), join(root, "elsewhere")];
  await mkdir(join(tree, "--", "-x"), { recursive: true });
  await mkdir(elsewhere);
  await writeFile(join(elsewhere, "precious.txt"), "mine\n");
  await writeFile(join(tree, "--", "*"), "");
  await symlink(elsewhere, join(tree, "link"));
  await symlink(tree, join(tree, "--", "loop"));
  await removeTree(tree);
  await removeTree(tree);
  expect(existsSync(tree)).toBe(false);
  expect(await readFile(join(elsewhere, "precious.txt"), "utf8")).toBe("mine\n");
});

test("of a link to a tree only the link is removed", async () => {
  const root = await temporaryDirectory();
  await mkdir(join(root, "elsewhere", "inside"), { recursive: true });
  await symlink(join(root, "elsewhere"), join(root, "link"));
  await removeTree(join(root, "link"));
  expect(await readdir(root)).toEqual(["elsewhere"]);
  expect(await readdir(join(root, "elsewhere"))).toEqual(["inside"]);
});
