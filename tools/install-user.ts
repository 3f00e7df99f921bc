import { execFileSync } from "node:child_process";
import { chmod, constants, cp, mkdir, mkdtemp, readFile, readdir, readlink, rename } from "node:fs/promises";
import { copyFile, realpath, rm, stat, symlink, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, dirname, join } from "node:path";
import { lockFile, LockTimeoutError } from "../src/lib/file-lock.ts";
import { prove, replaceLink } from "../src/main/update.ts";
import { build } from "./build.ts";
import { linkPrograms } from "./install/links.ts";
import { addPathLines } from "./install/path-lines.ts";
import { publishedManifest } from "./pack/manifest.ts";

/*
 * `npm run install-user`: svc with the Node and the agent CLI of this checkout, for the user who runs it.
 *
 * ~/.local/share/svc/0.1.0-x7Ab2c/  a version: bin/svc, bridge, node, claude, and node_modules
 *                   /current        link to the version in use
 *                   /previous       link to the one before; older ones are removed
 * ~/.local/bin/svc, bridge          links through `current`, as the manual pages in ~/.local/share/man
 *
 * Nothing is downloaded: `npm ci` has brought all of it, with the npm settings of this machine. A version is made
 * beside the others, and only the rename of `current` puts it in use: whatever is killed at any moment leaves programs
 * that work, and the next run removes the rest.
 */

/** Also tells a directory of ours from one of another program of that name. */
const lockName = ".svc-agent.lock";

const root = dirname(import.meta.dirname);

const say = (line: string): void => void process.stderr.write(`${line}\n`);

const installForUser = async (): Promise<void> => {
  const home = homedir();
  if (process.getuid?.() === 0 && (await stat(home)).uid !== 0)
    throw new Error(
      `You are root, and ${home} is another user's: run this as that user, or with HOME=/root.`,
    );
  const prefix = await preparePrefix(home);
  await using _lock = await lock(join(prefix, lockName));
  await removeUnused(prefix);
  say(`Building svc into ${prefix}; this takes half a minute …`);
  const current = join(prefix, "current");
  let versions: string;
  try {
    const directory = await makeVersion(prefix);
    versions = await tryPrograms(directory);
    const before = await realpath(current).catch(() => null);
    if (before !== null) await replaceLink(join(prefix, "previous"), before);
    await replaceLink(current, directory);
  } finally {
    await removeUnused(prefix);
  }
  const { notes, isSvcLinked } = await linkPrograms(home, current);
  process.stdout.write(`${versions} are in ${prefix}.\n`);
  for (const line of [...notes, ...(await addPathLines(home))]) process.stdout.write(`${line}\n`);
  if (!isSvcLinked) process.exitCode = 1;
};

/** Makes the directory for all versions, and refuses one that somebody else uses. Returns it without links above it. */
const preparePrefix = async (home: string): Promise<string> => {
  const share = join(home, ".local", "share");
  await mkdir(share, { recursive: true });
  const prefix = join(await realpath(share), "svc");
  await mkdir(prefix, { recursive: true });
  const names = await readdir(prefix);
  if (names.length > 0 && !names.includes(lockName))
    throw new Error(
      `${prefix} holds files of something else (${names[0]}): move it away, and run this again.`,
    );
  return prefix;
};

const lock = async (path: string) => {
  const { signal } = new AbortController();
  return await lockFile({ path, timeoutSeconds: 0.2, signal }).catch(async (error: unknown) => {
    if (!(error instanceof LockTimeoutError)) throw error;
    say("Another install is under way: waiting for its end …");
    return await lockFile({ path, timeoutSeconds: 1800, signal });
  });
};

/** Removes versions that no link leads to, also unfinished ones. Files that are not ours stay. */
const removeUnused = async (prefix: string): Promise<void> => {
  const links = ["current", "previous"].map((name) => readlink(join(prefix, name)).catch(() => ""));
  const used = await Promise.all(links);
  for (const name of await readdir(prefix))
    if (/^(\.new|\d+\.\d+\.\d+.*)-\w{6}$/.test(name) && !used.includes(name))
      await rm(join(prefix, name), { recursive: true, force: true });
};

/** @returns the directory of a whole version, not in use yet */
const makeVersion = async (prefix: string): Promise<string> => {
  const fresh = await mkdtemp(join(prefix, ".new-"));
  await chmod(fresh, 0o755);
  const manifest = await readFile(join(root, "package.json"), "utf8");
  const { version, files } = JSON.parse(manifest) as { version: string; files: string[] };
  // As npm packs: without deploy/compose/.gitignore, and the files with passwords that it names.
  const isPacked = (path: string): boolean => !/\/(\.gitignore|\.env|service\.env)$/.test(path);
  const copy = (from: string, to: string): Promise<void> =>
    cp(from, to, { recursive: true, mode: constants.COPYFILE_FICLONE, filter: isPacked });
  const modules = join(fresh, "node_modules");
  const agentCli = join("@anthropic-ai", "claude-code");
  await copy(join(root, "node_modules", agentCli), join(modules, agentCli));
  const program = join(modules, "svc-agent");
  for (const file of [...files, "README.md", "LICENSE"])
    if (file !== "dist") await copy(join(root, file), join(program, file));
  await writeFile(join(program, "package.json"), publishedManifest(manifest));
  await build(root, join(program, "dist"));
  const bin = join(fresh, "bin");
  await mkdir(bin);
  await copyFile(process.execPath, join(bin, "node"), constants.COPYFILE_FICLONE);
  await symlink(join("..", "node_modules", agentCli, "bin", "claude.exe"), join(bin, "claude"));
  for (const name of ["svc", "bridge"]) await writeFile(join(bin, name), starter(name), { mode: 0o755 });
  const directory = join(prefix, `${version}-${basename(fresh).slice(-6)}`);
  await rename(fresh, directory);
  return directory;
};

/** Starts the program with the Node beside it: another one may come first on PATH, or none be there. */
const starter = (name: string): string => `#!/bin/sh
bin=$(dirname -- "$(readlink -f -- "$0")")
exec "$bin/node" "$bin/../node_modules/svc-agent/dist/${name}.mjs" "$@"
`;

/** @throws Error when a program does not run here, or svc refuses the store. Returns their versions. */
const tryPrograms = async (directory: string): Promise<string> => {
  const ask = (name: string, ...args: string[]): string =>
    execFileSync(join(directory, "bin", name), args, {
      encoding: "utf8",
      // Nothing of the user's is read, or made.
      env: { ...process.env, HOME: "/dev/null", CLAUDE_CONFIG_DIR: "/dev/null" },
    }).trim();
  const [svc, node, claude] = [ask("svc", "version"), ask("node", "--version"), ask("claude", "--version")];
  const [, version = ""] = svc.split(" ");
  const program = join(directory, "node_modules", "svc-agent");
  const signal = AbortSignal.timeout(120_000);
  await prove(program, version, { env: process.env as Record<string, string>, say, signal });
  return `${svc}, Node ${node} and the agent CLI, ${claude},`;
};

/** A sentence for what the user can mend; anything else is a fault of ours. */
const sentenceOf = (error: Error & { code?: string; path?: string; dest?: string }): string => {
  const [code] =
    /\b(ENOSPC|EDQUOT|EACCES|EPERM|EROFS|ENOTDIR)\b/.exec(`${error.code} ${error.message}`) ?? [];
  const place = error.dest ?? error.path ?? dirname(homedir());
  if (code === undefined) return error.message;
  if (code === "ENOSPC" || code === "EDQUOT")
    return `The disk is full: an install needs about 1 GB below ${homedir()} (${error.message}).`;
  return `${place} cannot be written to by this user (${error.message}).`;
};

try {
  await installForUser();
} catch (error) {
  if (!(error instanceof Error)) throw error;
  say(`${sentenceOf(error)}\nNothing was installed; an install that is there is as it was.`);
  process.exitCode = 1;
}
