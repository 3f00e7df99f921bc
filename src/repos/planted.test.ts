import {
  appendFile,
  lstat,
  mkdir,
  readdir,
  readFile,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { commitFile, never, plainGit, read, write } from "./plain-git.fixture.ts";
import { addTo, fetchInto, makeRemote, makeWorktree } from "./repos.fixture.ts";
import { savedDirOf, borrowedBy } from "./repos.ts";

type Made = Awaited<ReturnType<typeof makeWorktree>>;

/** A worktree beside the cached clone of another repository, of which its agent knows everything but the content. */
const besideSecret = async () => {
  const made = await makeWorktree();
  const secret = await makeRemote({ "secret.txt": "canary\n" });
  const other = await fetchInto(made.repos, secret.url);
  const tip = await plainGit(other.gitDir, "rev-parse", "refs/remotes/origin/main");
  await write(made.worktree.path, { "work.txt": "1\n" });
  return { ...made, other: other.gitDir, tip };
};

const link = async (target: string, path: string): Promise<void> => {
  await rm(path, { recursive: true, force: true });
  await mkdir(dirname(path), { recursive: true });
  await symlink(target, path);
};

type Plant = (gitDir: string, other: string, tip: string) => Promise<unknown>;

const plants: [string, Plant][] = [
  [
    "a HEAD that is a link to another clone's branch",
    (at, other) => link(`${other}/refs/remotes/origin/main`, `${at}/HEAD`),
  ],
  ["packed refs that are a link", (at, other) => link(`${other}/packed-refs`, `${at}/packed-refs`)],
  ["a branch that is a link", (at, other) => link(`${other}/refs/remotes/origin/main`, `${at}/refs/heads/x`)],
  ["a gigabyte of packed refs", (at) => truncate(`${at}/packed-refs`, 1e9)],
  ["a gigabyte of lenders", (at) => truncate(`${at}/objects/info/alternates`, 1e9)],
  ["refs that are a link", (at, other) => link(`${other}/refs`, `${at}/refs`)],
  ["logs that are a link", (at, other) => link(`${other}/logs`, `${at}/logs`)],
  ["objects that are a link", (at, other) => link(`${other}/objects`, `${at}/objects`)],
  [
    "an object that is a link",
    (at, other, tip) => {
      const object = `objects/${tip.slice(0, 2)}/${tip.slice(2)}`;
      return link(join(other, object), join(at, object));
    },
  ],
  ["borrowed objects", (at, other) => appendFile(`${at}/objects/info/alternates`, `${other}/objects\n`)],
  [
    "objects borrowed by a way around",
    (at) => appendFile(`${at}/objects/info/alternates`, "../../elsewhere\n"),
  ],
  ["a clone that is a link", async (at, other) => link(other, at)],
  [
    "a clone that is named by a file",
    async (at, other) => {
      await rm(at, { recursive: true });
      await writeFile(at, `gitdir: ${other}\n`);
    },
  ],
];

test.each(plants)(
  "%s is not followed: nothing of the other repository comes back, and the files are saved",
  async (_, plant) => {
    const { repos, worktree, remote, other, tip } = await besideSecret();
    await plant(worktree.gitDir, other, tip);
    // Whoever knows the id could name it himself.
    if ((await lstat(worktree.gitDir)).isDirectory())
      await write(worktree.gitDir, { "refs/heads/named": `${tip}\n` }).catch(() => undefined);
    const why = /^the agent's clone leads out of the worktree and is not read/;
    await expect(repos.commitAll(worktree, "all", never)).rejects.toThrow(why);
    await expect(repos.push(worktree, never)).rejects.toThrow(why);
    expect(await repos.isPushed(worktree, never)).toBe(false);
    const { ref, kept } = await repos.salvage(worktree, "job", never);
    expect(kept).toEqual([expect.stringMatching(why)]);
    const files = ["ls-tree", "-r", "--name-only", String(ref)];
    expect(await plainGit(savedDirOf(worktree.cacheDir), ...files)).toBe("README.md\nwork.txt");
    for (const place of [savedDirOf(worktree.cacheDir), remote.url])
      expect(await plainGit(place, "cat-file", "--batch-all-objects", "--batch-check")).not.toContain(tip);
    expect(await plainGit(other, "fsck")).toBe("");
  },
);

test.each([
  ["a gigabyte of configuration", (config: string) => truncate(config, 1e9)],
  ["a configuration without an end", (config: string) => link("/dev/zero", config)],
])("%s is replaced, and never held", async (_, plant) => {
  const { repos, worktree } = await makeWorktree();
  const tip = await commitFile(worktree.path, "work.txt");
  const config = join(worktree.gitDir, "config");
  await plant(config);
  const { maxRSS } = process.resourceUsage();
  await repos.checkOutCommit(worktree, { commit: tip, tip }, never);
  expect((process.resourceUsage().maxRSS - maxRSS) / 1024).toBeLessThan(100);
  expect((await lstat(config)).isFile()).toBe(true);
  expect(await readFile(config, "utf8")).toMatch(/^\[core\]\n.{1,10000}$/s);
});

test("tips that are no ids name nothing", async () => {
  const { repos, worktree } = await makeWorktree();
  const tip = await commitFile(worktree.path, "work.txt");
  for (const [name, text] of [
    ["option", "--upload-pack=touch /nowhere\n"],
    ["name", "refs/heads/service/one\n"],
    ["expression", `${tip}^{/x}\n`],
    ["short", `${tip.slice(0, 12)}\n`],
    ["two", `${tip}\n${tip}\n`],
    ["upper", `${"A".repeat(40)}\n`],
  ] as const)
    await write(worktree.gitDir, { [`refs/heads/${name}`]: text });
  const { ref, kept } = await repos.salvage(worktree, "job", never);
  expect(kept).toEqual([]);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "rev-parse", String(ref))).toBe(tip);
});

const entries = [".git", "..", ".GIT", "git~1"];

test.each(entries)(
  "a commit with an entry %s is not taken into the cached clone; the files are saved without it",
  async (name) => {
    const { repos, worktree } = await makeWorktree();
    const blob = await plainGit(worktree.path, "rev-parse", "HEAD:README.md");
    const raw = Buffer.concat([Buffer.from(`100644 ${name}\0`), Buffer.from(blob, "hex")]);
    await writeFile(join(worktree.path, "raw"), raw);
    const tree = await plainGit(worktree.path, "hash-object", "-t", "tree", "--literally", "-w", "raw");
    const commit = await plainGit(worktree.path, "commit-tree", "-p", "HEAD", "-m", "x", tree);
    await rm(join(worktree.path, "raw"));
    await write(worktree.path, { "work.txt": "1\n" });
    await plainGit(worktree.path, "update-ref", "refs/heads/aside", commit);
    const { ref, kept } = await repos.salvage(worktree, "job", never);
    expect(kept).toEqual([expect.stringContaining("git cannot take what is in it")]);
    expect(await plainGit(savedDirOf(worktree.cacheDir), "ls-tree", "-r", "--name-only", String(ref))).toBe(
      "README.md\nwork.txt",
    );
    await plainGit(worktree.path, "update-ref", "refs/heads/service/one", commit);
    await expect(repos.saveBranch(worktree, never)).rejects.toThrow(/\b[0-9a-f]{40}\b/);
    expect(await plainGit(savedDirOf(worktree.cacheDir), "rev-list", "--all")).not.toContain(commit);
  },
);

test.each([
  ["cut", (pack: Buffer) => pack.subarray(0, 40)],
  ["overwritten", (pack: Buffer) => pack.fill(0xff, 14, pack.length - 24)],
])("of a clone with a pack that is %s the files are saved", async (_, broken) => {
  const { repos, worktree } = await makeWorktree();
  await commitFile(worktree.path, "work.txt");
  await plainGit(worktree.path, "repack", "-a", "-d", "-l", "--quiet");
  const packs = join(worktree.gitDir, "objects/pack");
  const pack = join(packs, (await readdir(packs)).find((name) => name.endsWith(".pack")) ?? "");
  const bytes = await readFile(pack);
  await rm(pack);
  await writeFile(pack, broken(bytes));
  const { ref } = await repos.salvage(worktree, "job", never);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "show", `${ref}:work.txt`)).toBe("work");
});

test("a file of 300 GB that holds nothing is left out with a warning, without reading it", async () => {
  const { repos, worktree } = await makeWorktree({ "README.md": "hello\n", ".gitignore": "ignored\n" });
  await write(worktree.path, { "sub/large.bin": "", "work.txt": "1\n", ignored: "" });
  for (const name of ["sub/large.bin", "README.md", "ignored"])
    await truncate(join(worktree.path, name), 300e9);
  const began = performance.now();
  const kept = ["README.md", "sub/large.bin"].map(
    (name) => `file beyond SERVICE_MAX_REPO_BYTES or 1 GiB of new files: ${name}`,
  );
  expect((await repos.inspect(worktree, never)).kept.toSorted()).toEqual(kept);
  await repos.commitAll(worktree, "work", never);
  await write(worktree.path, { "more.txt": "1\n" });
  const { ref } = await repos.salvage(worktree, "job", never);
  expect(performance.now() - began).toBeLessThan(60_000);
  expect(await plainGit(savedDirOf(worktree.cacheDir), "ls-tree", "-r", "--name-only", String(ref))).toBe(
    ".gitignore\nREADME.md\nmore.txt\nwork.txt",
  );
  expect(await plainGit(savedDirOf(worktree.cacheDir), "show", `${ref}:README.md`)).toBe("hello");
});

/** What a clone reads outside of itself. */
const borrows = async ({ gitDir }: Made["worktree"]): Promise<string[]> =>
  (await readFile(join(gitDir, "objects/info/alternates"), "utf8")).split("\n").filter((line) => line !== "");

test("a clone borrows from what `borrowedBy` names alone; a throwaway one needs nothing of its source", async () => {
  const { repos, repo, worktree, settings } = await makeWorktree();
  await commitFile(worktree.path, "committed.txt");
  await write(worktree.path, { "work.txt": "1\n" });
  const commit = await repos.capture(worktree, never);
  const copy = await addTo(repos, repo, "two", { source: { worktree, commit } });
  for (const each of [worktree, copy])
    expect(borrowedBy(each)).toEqual(expect.arrayContaining(await borrows(each)));
  for (const path of [worktree.path, worktree.ownDir])
    await rename(path, join(settings.worktreeRoot, "..", `gone-${path.endsWith(".git")}`));
  expect(await plainGit(copy.path, "log", "--format=%s", "-2")).toContain("State to look at");
  expect(await plainGit(copy.path, "fsck", "--connectivity-only")).toBe("");
  expect(await read(copy.path, "work.txt")).toBe("1\n");
});
