import { mkdir, mkdtemp, readdir, readlink, realpath, rename, rm, symlink } from "node:fs/promises";
import { basename, dirname, join, relative } from "node:path";
import { z } from "zod";
import { Check } from "../../contract/instance.ts";
import { syncDirectory } from "../../lib/atomic-file.ts";
import { runCommand, type CommandResult } from "../../lib/command.ts";
import { lockFile, LockTimeoutError } from "../../lib/file-lock.ts";
import { install, packageName, versionOf } from "./install.ts";

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

type Request = {
  /** Where the new version comes from; null: back to the version before. */
  source: string | null;
  env: Record<string, string>;
  say: (sentence: string) => void;
  signal: AbortSignal;
};

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
const prove = async (
  directory: string,
  version: string,
  { env, signal }: Pick<Request, "env" | "signal">,
): Promise<void> => {
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
const replaceLink = async (path: string, target: string): Promise<void> => {
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
