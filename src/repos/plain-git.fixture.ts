import { execFile, spawnSync } from "node:child_process";
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { borrowedBy, type Worktree } from "./repos.ts";

export const never = new AbortController().signal;

const run = promisify(execFile);

/** git as an agent or a user runs it: with the repository's configuration and hooks. */
export const plainGit = async (cwd: string, ...args: string[]): Promise<string> => {
  const env = {
    PATH: process.env["PATH"],
    HOME: "/nonexistent",
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_TEMPLATE_DIR: "",
  };
  // Git waits for ever for a pipe in the place of a file.
  return (await run("git", args, { cwd, env, timeout: 60_000 })).stdout.trim();
};

export const write = async (root: string, files: Record<string, string | null>): Promise<void> => {
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    if (content === null) await plainGit(root, "rm", "--quiet", name);
    else await writeFile(join(root, name), content);
  }
};

/** Commits a file as an agent would. Resolves to the commit. */
export const commitFile = async (path: string, name: string): Promise<string> => {
  const identity = ["-c", "user.name=agent", "-c", "user.email=agent@localhost"];
  await write(path, { [name]: "work\n" });
  await plainGit(path, "add", "--all");
  await plainGit(path, ...identity, "commit", "--quiet", "--message", name);
  return plainGit(path, "rev-parse", "HEAD");
};

export const read = (...parts: string[]): Promise<string> => readFile(join(...parts), "utf8");

/** Without network, and with nothing of the service but what a clone borrows. */
export const inside = async (worktree: Worktree, ...command: string[]): Promise<string> => {
  const readable = (paths: string[]) => paths.flatMap((path) => ["--ro-bind-try", path, path]);
  const machine = readable(["/usr", "/bin", "/lib", "/lib64", "/etc/gitconfig"]);
  const options = ["--unshare-all", ...machine, ..."--proc /proc --dev /dev --tmpfs /tmp".split(" ")];
  const own = [
    ...readable(borrowedBy(worktree)),
    "--bind",
    worktree.path,
    worktree.path,
    "--chdir",
    worktree.path,
  ];
  return (await run("bwrap", [...options, ...own, ...command])).stdout;
};

/** Makes a file of each object that is in a pack, as damage to one needs it. */
export const loosen = async (gitDir: string): Promise<void> => {
  const packs = join(gitDir, "objects/pack");
  const aside = join(gitDir, "aside");
  await rename(packs, aside);
  await mkdir(packs);
  for (const name of await readdir(aside)) {
    if (!name.endsWith(".pack")) continue;
    spawnSync("git", ["-C", gitDir, "unpack-objects", "-q"], { input: await readFile(join(aside, name)) });
  }
  await rm(aside, { recursive: true });
};
