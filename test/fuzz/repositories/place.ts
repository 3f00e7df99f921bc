import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { cpSync, existsSync } from "node:fs";
import { chmod, mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { removeTree } from "../../../src/lib/remove-tree.ts";
import { plainGit, write } from "../../../src/repos/plain-git.fixture.ts";
import { addTo, fetchInto, makeRepos, type TestRepos } from "../../../src/repos/repos.fixture.ts";
import { type CachedRepo, savedDirOf, type Worktree } from "../../../src/repos/repos.ts";
import { walls, type WallMode } from "../../../src/repos/wall.fixture.ts";
import { canaries, trapScript } from "./trap.ts";

/** Which repository a round works on: with submodules two levels deep, which are checked out, or without. */
export const bases = ["plain", "submodules"] as const;

export type Base = (typeof bases)[number];

/** What is the same in each round: the paths too. */
type Scene = {
  /** All of a round lies below it. */
  root: string;
  /** A bare repository. */
  remote: string;
  repo: CachedRepo;
  worktree: Worktree;
  /** The cached clone of another repository, and the ids of what is in that. */
  secret: { gitDir: string; ids: string[]; tip: string };
  /** A commit of the submodule `lib` after the one that is checked out; empty: there is none. */
  nextLib: string;
  /** A repository to put into a worktree: its directory, and the commit that is checked out there. */
  nested: { from: string; commit: string };
};

export type Place = Scene &
  TestRepos & {
    path: string;
    gitDir: string;
    /** The agent's program, which does nothing before it is armed. */
    trap: { program: string; directory: string; outside: string; sleeps: string };
    /** The service's git directory that has salvage refs and branches, and reads what the remote has. */
    savedDir: string;
    /** Git directories of the service that no agent may change. */
    serviceDirs: string[];
    /** Names of repositories that plants put into the worktree. */
    repositories: string[];
    /** An agent is at work while the service compares the files. */
    isRacing: boolean;
    /** Puts a repository at a path of the worktree. Resolves to its git directory. */
    nest: (name: string) => Promise<string>;
    git: (...args: string[]) => Promise<string>;
  };

/** The service's environment: no program of an agent's may see the canaries. */
const env = {
  PATH: process.env["PATH"],
  TZ: "UTC",
  HTTPS_PROXY: `http://user:${canaries.environment}@127.0.0.1:1`,
  SSH_AUTH_SOCK: `/${canaries.environment}`,
};

export const pointerOf = (content: { hash: string; size: number }): string =>
  `version https://git-lfs.github.com/spec/v1\noid sha256:${content.hash}\nsize ${content.size}\n`;

/** Content of `big.bin`, where Git LFS has put it in place of its pointer. */
export const bigContent = "big\n";
const bigHash = createHash("sha256").update(bigContent).digest("hex");

const baseFiles = {
  "README.md": "hello\n",
  ".gitignore": "ignored\n*.log\n",
  ".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n*.dat filter=e diff=e merge=e\n",
  "big.bin": pointerOf({ hash: bigHash, size: bigContent.length }),
  "src/a.txt": "a\n",
  "src/b.txt": "b\n",
  "src/run.sh": "#!/bin/sh\n",
  "deep/down/file.txt": "deep\n",
  "keep.txt": "keep\n",
  "other.bin": pointerOf({ hash: bigHash, size: bigContent.length }),
  "watched.txt": "watched\n",
  "hidden.txt": "hidden\n",
  "data.dat": "data\n",
};

const who = ["-c", "user.name=someone", "-c", "user.email=someone@localhost"];

const commitAll = async (work: string, files: Record<string, string>, gitlinks: [string, string][] = []) => {
  await write(work, files);
  await plainGit(work, "add", "--all");
  for (const [path, id] of gitlinks)
    await plainGit(work, "update-index", "--add", "--cacheinfo", `160000,${id},${path}`);
  await plainGit(work, ...who, "commit", "--quiet", "--message", "a change");
  return plainGit(work, "rev-parse", "HEAD");
};

const makeWork = async (root: string, name: string): Promise<string> => {
  const work = join(root, `${name}-work`);
  await plainGit("/", "init", "--quiet", "--initial-branch=main", work);
  return work;
};

const publish = async (root: string, name: string): Promise<string> => {
  const url = join(root, `${name}.git`);
  await plainGit(root, "clone", "--quiet", "--bare", `${name}-work`, url);
  return url;
};

const declaration = (name: string, url: string): string =>
  `[submodule "${name}"]\n\tpath = ${name}\n\turl = ${url}\n`;

/** `lib`, which has the submodule `deps`: the commit that is used, and the next. */
const makeLibrary = async (root: string) => {
  const deps = await makeWork(root, "deps");
  const inner = await commitAll(deps, { "deps.txt": "deps\n" });
  const declared = { ".gitmodules": declaration("deps", await publish(root, "deps")) };
  const lib = await makeWork(root, "lib");
  const used = await commitAll(lib, { "lib.txt": "lib\n", ...declared }, [["deps", inner]]);
  await write(lib, { "lib.txt": "next\n" });
  await plainGit(lib, "add", "lib.txt");
  await plainGit(lib, ...who, "commit", "--quiet", "--message", "next");
  const next = await plainGit(lib, "rev-parse", "HEAD");
  return { url: await publish(root, "lib"), used, next };
};

const makeNested = async (directory: string): Promise<Scene["nested"]> => {
  const from = join(directory, "nested");
  await plainGit("/", "init", "--quiet", "--initial-branch=main", from);
  const files = { file: "b\n", ".gitattributes": "* filter=e diff=e merge=e\n" };
  return { from, commit: await commitAll(from, files) };
};

/** Makes all that the service has before an agent starts, as the service makes it. */
const build = async (root: string, base: Base, mode: WallMode, nested: Scene["nested"]): Promise<Scene> => {
  await mkdir(join(root, "outside"), { recursive: true });
  await writeFile(join(root, "outside/secret"), `${canaries.file}\n`);
  const lib = base === "submodules" ? await makeLibrary(root) : null;
  const work = await makeWork(root, "remote");
  await commitAll(work, { "README.md": "first\n" });
  if (lib === null) await commitAll(work, baseFiles);
  else {
    const declared = { ".gitmodules": declaration("lib", lib.url) };
    await commitAll(work, { ...baseFiles, ...declared }, [["lib", lib.used]]);
  }
  const remote = await publish(root, "remote");
  const secretWork = await makeWork(root, "secret");
  const tip = await commitAll(secretWork, { "secret.txt": `${canaries.repository}\n` });
  const secretUrl = await publish(root, "secret");
  const { repos } = await makeRepos({}, env, undefined, root, walls[mode]);
  const { gitDir } = await fetchInto(repos, secretUrl);
  const listed = await plainGit(gitDir, "cat-file", "--batch-all-objects", "--batch-check");
  const file = await plainGit(secretWork, "hash-object", join(root, "outside/secret"));
  const ids = [...listed.split("\n").map((line) => line.slice(0, 40)), file];
  const repo = await fetchInto(repos, remote);
  const submodules = base === "submodules" ? "recursive" : false;
  const worktree = await addTo(repos, repo, "one", { wanted: { submodules, lfs: false } });
  for (const name of ["deps", "lib", "remote", "secret"]) await removeTree(join(root, `${name}-work`));
  return {
    root,
    remote,
    repo,
    worktree,
    secret: { gitDir, ids, tip },
    nextLib: lib?.next ?? "",
    nested,
  };
};

/** Readies places for rounds below a directory: each is a copy, at the same path. */
export const createStock = (directory: string, mode: WallMode) => {
  const root = join(directory, "round");
  const scenes = new Map<Base, Promise<Scene>>();
  const nested = makeNested(directory);
  const templateOf = (base: Base): string => join(directory, `template-${base}`);
  const fresh = async (base: Base): Promise<Scene> => {
    await removeTree(root);
    const scene = await build(root, base, mode, await nested);
    await rename(root, templateOf(base));
    return scene;
  };
  return async (
    base: Base,
    { gitTimeout, number }: { gitTimeout: number; number: number },
  ): Promise<Place> => {
    const making = scenes.get(base) ?? fresh(base);
    scenes.set(base, making);
    const scene = await making;
    await removeTree(root);
    copy(templateOf(base), root);
    const place = await makeRepos({ gitTimeout }, env, undefined, root, walls[mode]);
    return occupy(scene, place, number);
  };
};

export type Stock = ReturnType<typeof createStock>;

const copy = (from: string, to: string): void =>
  cpSync(from, to, { recursive: true, preserveTimestamps: true, verbatimSymlinks: true });

const occupy = async (scene: Scene, repos: TestRepos, number: number): Promise<Place> => {
  const { root, worktree, secret, nested } = scene;
  const { path, gitDir, ownDir, cacheDir } = worktree;
  // Git ignores it, so that it outlives a checkout of other files.
  const directory = join(path, "ignored/traps");
  const trap = {
    program: join(directory, "evil.sh"),
    directory,
    outside: join(root, "outside"),
    sleeps: `1000.${process.pid}${number}`,
  };
  const serviceDirs = [ownDir, cacheDir, savedDirOf(cacheDir), secret.gitDir];
  await mkdir(join(directory, "hooks"), { recursive: true });
  await writeFile(trap.program, trapScript({ ...trap, serviceDirs, ownDir, pid: process.pid }));
  await chmod(trap.program, 0o755);
  const repositories: string[] = [];
  const nest = async (name: string): Promise<string> => {
    const at = join(path, name);
    await mkdir(at, { recursive: true });
    copy(nested.from, at);
    return join(at, ".git");
  };
  const git = (...args: string[]): Promise<string> => plainGit(path, ...args);
  return {
    ...scene,
    ...repos,
    path,
    gitDir,
    get savedDir() {
      return existsSync(savedDirOf(cacheDir)) ? savedDirOf(cacheDir) : cacheDir;
    },
    trap,
    serviceDirs,
    repositories,
    isRacing: false,
    nest,
    git,
  };
};

const run = promisify(execFile);

/** Git as nobody steers it, in a bare repository; what it prints is bytes, one character each. */
export const rawGit = async (gitDir: string, ...args: string[]): Promise<string> => {
  const options = ["--git-dir", gitDir, "-c", "protocol.allow=never"];
  const environment = { PATH: process.env["PATH"], HOME: "/nonexistent", GIT_CONFIG_NOSYSTEM: "1" };
  const settings = { env: environment, encoding: "latin1", maxBuffer: 2 ** 28, cwd: "/" } as const;
  return (await run("git", [...options, ...args], settings)).stdout;
};

/** Empty: it is not there, or no file. */
export const textIn = (...parts: string[]): Promise<string> =>
  readFile(join(...parts), "latin1").catch(() => "");
