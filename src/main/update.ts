import { createHash } from "node:crypto";
import { existsSync, realpathSync, statSync } from "node:fs";
import {
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  symlink,
} from "node:fs/promises";
import { homedir, userInfo } from "node:os";
import { basename, delimiter, dirname, join, relative, resolve } from "node:path";
import { z } from "zod";
import { Check } from "../contract/instance.ts";
import { syncDirectory } from "../lib/atomic-file.ts";
import { runCommand, type CommandResult } from "../lib/command.ts";
import { lockFile, LockTimeoutError } from "../lib/file-lock.ts";
import { git, withoutCredentials } from "../lib/git.ts";

/*
 * PREFIX/lib/node_modules/svc-agent   what "npm install --global" has installed: the first version
 * PREFIX/lib/svc-agent/VERSION-DIGEST a later one, in node_modules/svc-agent below it
 *                     /current        link to the package in use
 *                     /previous       link to the one before
 * PREFIX/bin/svc, bridge              links through `current`
 *
 * Only the rename of `current` changes the version, so whatever is killed at any moment leaves programs that work.
 * Running processes keep their files: Node resolves the links when it starts.
 */

/** The name of the package. */
const packageName = "svc-agent";

type Surroundings = { env: Record<string, string>; say: (sentence: string) => void; signal: AbortSignal };

/** `source` of the new version: a git URL with or without `#branch`, a directory, or a tarball; null: the one before. */
type Request = Surroundings & { source: string | null };

type Installation = { prefix: string; versions: string; active: string };

/**
 * Changes the version that `svc` and `bridge` lead to, once it has proved itself. Signals no process.
 * @throws Error with a sentence for the user, or the signal's reason; nothing has changed then
 */
export const runUpdate = async (request: Request): Promise<{ from: string; to: string }> => {
  const { source, say, signal } = request;
  const { versions } = await findInstallation();
  await using _lock = await lockVersions(versions, signal);
  const installation = await findInstallation();
  const { active } = installation;
  const staging = await mkdtemp(join(versions, ".new-"));
  try {
    const next =
      source === null
        ? await versionBefore(installation)
        : await install({ ...request, source, versions, staging });
    const [from, to] = [await versionOf(active), await versionOf(next)];
    if (next === active) say(`svc ${to} with this content is in use already`);
    else {
      await prove(next, to, request);
      await activate(installation, next);
    }
    return { from, to };
  } finally {
    await clear(versions);
  }
};

/** @throws Error with a sentence that says what to do when npm has not installed this program for all to use */
const findInstallation = async (): Promise<Installation> => {
  const directory = dirname(import.meta.dirname);
  const prefix = prefixOf(directory);
  const active = dirname(dirname(await realpath(join(prefix ?? "", "bin", "svc")).catch(() => "")));
  if (prefix !== null && prefixOf(active) === prefix)
    return { prefix, versions: join(prefix, "lib", packageName), active };
  throw new Error(
    `${directory} is not what "npm install --global" has installed: update a checkout with git pull, another package as it was installed`,
  );
};

/** Whether `npm run install-user` has put this program where it is: its starter is beside `node_modules`. */
export const isInstalledForUser = (): boolean =>
  import.meta.dirname.endsWith("/node_modules/svc-agent/dist") &&
  existsSync(join(import.meta.dirname, "../../../bin/svc"));

const prefixOf = (directory: string): string | null =>
  /^(.*)\/lib\/(svc-agent\/[^/]+\/)?node_modules\/svc-agent$/.exec(directory)?.[1] ?? null;

/** One update at a time. */
const lockVersions = async (versions: string, signal: AbortSignal) => {
  try {
    await mkdir(versions, { recursive: true });
    return await lockFile({ path: join(versions, ".lock"), timeoutSeconds: 2, signal });
  } catch (cause) {
    signal.throwIfAborted();
    const wayOut =
      cause instanceof LockTimeoutError
        ? "another update is under way; wait until it has ended"
        : "run svc update as a user who may write there; in a container, use an image of the new version";
    throw new Error(`${versions} cannot be changed: ${wayOut}`, { cause });
  }
};

const versionBefore = async ({ versions, active }: Installation): Promise<string> => {
  const before = await realpath(join(versions, "previous")).catch(() => active);
  if (before !== active) return before;
  throw new Error("There is no version before: install one with svc update --source");
};

/** What leads through `current`: a path below the prefix, and the file of the package. */
const links = {
  "bin/svc": "dist/svc.mjs",
  "bin/bridge": "dist/bridge.mjs",
  "share/man/man1/svc.1": "dist/man/svc.1",
  "share/man/man1/bridge.1": "dist/man/bridge.1",
};

const Report = z.object({ checks: z.array(Check) });

/** @throws Error when the program does not run with these settings, or refuses the store. It writes nothing. */
export const prove = async (directory: string, version: string, { env, signal }: Surroundings) => {
  const run = (...args: string[]): Promise<CommandResult> =>
    runCommand({
      command: process.execPath,
      args: [join(directory, links["bin/svc"]), ...args],
      cwd: directory,
      env,
      timeoutSeconds: 120,
      signal,
    });
  const named = await run("version");
  const examined = await run("doctor", "--offline", "--json");
  const store = checksOf(examined.stdout)?.find(({ name }) => name === "store");
  if (named.stdout.trim() !== `svc ${version}` || store === undefined) {
    const said = `${named.stderr}${examined.stderr}`.trim().slice(-500);
    throw new Error(`svc ${version} does not run with these settings: ${said}`);
  }
  if (store.status === "fault") throw new Error(`svc ${version} refuses the store: ${store.message}`);
};

const checksOf = (stdout: string): Check[] | null => {
  try {
    return Report.parse(JSON.parse(stdout)).checks;
  } catch {
    return null;
  }
};

const activate = async ({ prefix, versions, active }: Installation, next: string): Promise<void> => {
  const current = join(versions, "current");
  await replaceLink(join(versions, "previous"), active);
  // Still the version in use: after npm, the programs do not lead through `current` yet.
  await replaceLink(current, active);
  for (const [link, file] of Object.entries(links))
    await replaceLink(join(prefix, link), join(current, file));
  await replaceLink(current, next);
};

/** By one rename. */
export const replaceLink = async (path: string, target: string): Promise<void> => {
  const directory = dirname(path);
  const fresh = join(directory, `.${basename(path)}.new`);
  await mkdir(directory, { recursive: true });
  await rm(fresh, { force: true });
  await symlink(relative(directory, target), fresh);
  await rename(fresh, path);
  await syncDirectory(directory);
};

/** Removes all but the two versions that links lead to; also what a killed update has left. */
const clear = async (versions: string): Promise<void> => {
  const names = ["current", "previous"];
  const used = await Promise.all(names.map((name) => readlink(join(versions, name)).catch(() => "")));
  const kept = [".lock", ...names, ...used.map((target) => target.split("/")[0])];
  for (const name of await readdir(versions))
    if (!kept.includes(name)) await rm(join(versions, name), { recursive: true, force: true });
};

/** `versions`: the directory of all; `staging`: an empty one on the same file system. */
type Installing = Surroundings & { source: string; versions: string; staging: string };

/**
 * Installs the package of this source into a directory of its version and content. npm runs no script of it. Only a
 * checkout, in a directory or fetched with git, is built by its own scripts.
 * @returns the directory of the package
 * @throws Error with a sentence for the user: also for another package, and for one that needs another Node
 */
const install = async (request: Installing): Promise<string> => {
  const { source, versions, staging } = request;
  const tarball = await tarballOf(request);
  const tree = join(staging, "tree");
  await mkdir(tree);
  const options = ["--prefix", tree, "--ignore-scripts", "--engine-strict", "--no-save", "--no-package-lock"];
  await npm(["install", ...options, "--", tarball], { ...request, timeoutSeconds: 300 });
  const version = await versionOf(join(tree, "node_modules", packageName), withoutCredentials(source));
  const digest = createHash("sha256")
    .update(await readFile(tarball))
    .digest("hex");
  const place = join(versions, `${version}-${digest.slice(0, 8)}`);
  // Content that is there already may be in use.
  if ((await stat(place).catch(() => null)) === null) await rename(tree, place);
  return join(place, "node_modules", packageName);
};

const tarballOf = async (request: Installing): Promise<string> => {
  const { source, staging, env, signal, say } = request;
  if (/^(git\+)?((https?|ssh|file):\/\/|[\w.-]+@[\w.-]+:)./.test(source)) {
    const [url = "", ref = ""] = source.replace(/^git\+/, "").split("#");
    say(`Fetching ${withoutCredentials(url)}`);
    const clone = join(staging, "clone");
    const branch = ref === "" ? [] : [`--branch=${ref}`];
    const args = ["clone", "--quiet", "--depth=1", ...branch, "--", url, clone];
    await git(args, { env, signal, timeoutSeconds: 600 });
    return await pack(request, clone);
  }
  const path = resolve(source);
  const found = source === "" ? null : await stat(path).catch(() => null);
  if (found === null)
    throw new Error(`The source "${source}" is neither a git URL nor a directory or .tgz that exists`);
  return found.isDirectory() ? await pack(request, path) : path;
};

/** The tarball of a directory. Its name is checked first: packing runs its scripts. */
const pack = async (request: Installing, directory: string): Promise<string> => {
  const { staging, source, say } = request;
  await versionOf(directory, withoutCredentials(source));
  say("Packing it; a checkout is built first, which takes a minute or some");
  await npm(["pack", "--pack-destination", staging, "--", directory], { ...request, timeoutSeconds: 1800 });
  return join(staging, (await readdir(staging)).find((name) => name.endsWith(".tgz")) ?? "");
};

/** What is needed of a package.json; npm has checked its version. */
const Manifest = z.object({ name: z.string(), version: z.string() });

/** The version of our package in this directory. @throws Error when it is another one, or none */
const versionOf = async (directory: string, source = directory): Promise<string> => {
  const found = await readFile(join(directory, "package.json"), "utf8")
    .then((text) => Manifest.parse(JSON.parse(text)))
    .catch(() => null);
  if (found?.name === packageName) return found.version;
  throw new Error(`${source} is not the package ${packageName}: name a checkout or a package of it`);
};

const npm = async (
  args: readonly string[],
  { staging, env, signal, timeoutSeconds }: Installing & { timeoutSeconds: number },
): Promise<void> => {
  const result = await runCommand({
    command: "npm",
    args: ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", ...args],
    cwd: staging,
    // npm must judge by the Node that svc runs on.
    env: { ...env, PATH: `${dirname(process.execPath)}${delimiter}${env["PATH"] ?? ""}` },
    timeoutSeconds,
    signal,
  });
  if (result.exitCode === 0) return;
  const said = withoutCredentials(result.stderr).replaceAll(/^npm error( code .*| A complete log.*)?/gm, "");
  const why = result.ended === "timed_out" ? ` in ${timeoutSeconds} s` : `: ${said.trim().slice(-1000)}`;
  throw new Error(`npm ${args[0]} did not succeed${why}`);
};

const isRoot = process.geteuid?.() === 0;

/**
 * Why svc update does not run as root, with the command to use; null: it may. Who may write to HOME or SERVICE_JOBS_DIR
 * would choose what root runs, by an .npmrc, a config.yml or a link.
 * @param command what the user has typed
 */
export const refusalAsRoot = (env: NodeJS.ProcessEnv, command: string): string | null => {
  const { SERVICE_JOBS_DIR: jobsDir } = env;
  const trusted = { HOME: homedir(), ...(jobsDir && { SERVICE_JOBS_DIR: jobsDir }) };
  for (const [variable, path] of Object.entries(isRoot ? trusted : {})) {
    const other = othersAbove(resolve(path));
    const use = `run "env -u SERVICE_JOBS_DIR HOME=${userInfo().homedir} ${command}", or run svc update as that user`;
    if (other !== null)
      return `As root, svc update trusts no directory of another user, and ${other} of ${variable} is one: ${use}`;
  }
  return null;
};

/** The path, or a directory above it, that is not root's; null: all are. What is missing is judged by what is above. */
const othersAbove = (path: string): string | null => {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) return othersAbove(dirname(path));
  const real = realpathSync(path);
  if (found.uid !== 0) return real;
  return real === dirname(real) ? null : othersAbove(dirname(real));
};
