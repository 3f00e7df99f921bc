import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, stat } from "node:fs/promises";
import { delimiter, dirname, join, resolve } from "node:path";
import { z } from "zod";
import { runCommand } from "../../lib/command.ts";
import { git, withoutCredentials } from "../../lib/git.ts";

/** The name of the package. */
export const packageName = "svc-agent";

/** What is needed of a package.json; npm has checked its version. */
const Manifest = z.object({ name: z.string(), version: z.string() });

type Request = {
  /** A git URL with or without `#branch`; a directory; a tarball. */
  source: string;
  /** The directory of all versions. */
  versions: string;
  /** An empty directory on the same file system. */
  staging: string;
  env: Record<string, string>;
  signal: AbortSignal;
  say: (sentence: string) => void;
};

/**
 * Installs the package of this source into a directory of its version and content. npm runs no script of it. Only a
 * checkout, in a directory or fetched with git, is built by its own scripts.
 * @returns the directory of the package
 * @throws Error with a sentence for the user: also for another package, and for one that needs another Node
 */
export const install = async (request: Request): Promise<string> => {
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

const tarballOf = async (request: Request): Promise<string> => {
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
const pack = async (request: Request, directory: string): Promise<string> => {
  const { staging, source, say } = request;
  await versionOf(directory, withoutCredentials(source));
  say("Packing it; a checkout is built first, which takes a minute or some");
  await npm(["pack", "--pack-destination", staging, "--", directory], { ...request, timeoutSeconds: 1800 });
  return join(staging, (await readdir(staging)).find((name) => name.endsWith(".tgz")) ?? "");
};

/** The version of our package in this directory. @throws Error when it is another one, or none */
export const versionOf = async (directory: string, source = directory): Promise<string> => {
  const found = await readFile(join(directory, "package.json"), "utf8")
    .then((text) => Manifest.parse(JSON.parse(text)))
    .catch(() => null);
  if (found?.name === packageName) return found.version;
  throw new Error(`${source} is not the package ${packageName}: name a checkout or a package of it`);
};

type Call = Pick<Request, "staging" | "env" | "signal"> & { timeoutSeconds: number };

const npm = async (
  args: readonly string[],
  { staging, env, signal, timeoutSeconds }: Call,
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
