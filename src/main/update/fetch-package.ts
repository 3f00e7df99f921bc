import { mkdtemp, readdir, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { runCommand } from "../../lib/command.ts";
import { git, withoutCredentials } from "../../lib/git.ts";
import { npmOptions } from "./as-root.ts";
import { packageName, readPackage, type Package } from "./installation.ts";

type Request = {
  /** A git URL with or without `#branch`; a directory; a tarball. */
  source: string;
  /** An empty directory for what is fetched, on the file system of the installation. */
  staging: string;
  env: Record<string, string>;
  signal: AbortSignal;
  say: (sentence: string) => void;
};

/**
 * Fetches and unpacks the package of this source with npm, which runs no script of it. Only a checkout, in a directory
 * or fetched with git, is built by its own scripts.
 * @throws Error with a sentence for the user: also for another package, and for one that needs another Node
 */
export const fetchPackage = async (request: Request): Promise<Package> => {
  const { staging, source } = request;
  const spec = await specOf(request);
  const options = ["--global", "--prefix", staging, "--ignore-scripts", "--engine-strict"];
  await npm(["install", ...options, "--", spec], { ...request, timeoutSeconds: 300 });
  const modules = join(staging, "lib", "node_modules");
  const [name = ""] = await readdir(modules);
  return await requireOurs(join(modules, name), withoutCredentials(source));
};

/** The path of the tarball that npm is to install. */
const specOf = async (request: Request): Promise<string> => {
  const { source, say } = request;
  if (/^(git\+)?((https?|ssh|file):\/\/|[\w.-]+@[\w.-]+:)./.test(source)) return await packClone(request);
  const path = resolve(source);
  const found = source === "" ? null : await stat(path).catch(() => null);
  if (found === null)
    throw new Error(`The source "${source}" is neither a git URL nor a directory or .tgz that exists`);
  if (found.isDirectory()) return await pack(request, path);
  say(`Fetching ${source}`);
  return path;
};

const packClone = async (request: Request): Promise<string> => {
  const { source, env, signal, say } = request;
  const [url = "", ref = ""] = source.replace(/^git\+/, "").split("#");
  // Elsewhere than the installation: Node runs no TypeScript, of which the build is written, below node_modules.
  const directory = await mkdtemp(join(tmpdir(), "svc-update-"));
  try {
    say(`Fetching ${withoutCredentials(url)}`);
    const branch = ref === "" ? [] : [`--branch=${ref}`];
    const args = ["clone", "--quiet", "--depth=1", ...branch, "--", url, directory];
    await git(args, { env, signal, timeoutSeconds: 600 });
    return await pack(request, directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
};

/** The tarball of a directory. Its name is checked first: packing runs its scripts. */
const pack = async (request: Request, directory: string): Promise<string> => {
  const { staging, say } = request;
  const { scripts } = await requireOurs(directory, directory);
  say(
    scripts["prepack"] === undefined
      ? `Packing ${directory}`
      : `Building ${directory}: a minute, or some when its packages are to be fetched`,
  );
  await npm(["pack", "--pack-destination", staging, "--", directory], { ...request, timeoutSeconds: 1800 });
  return join(staging, (await readdir(staging)).find((name) => name.endsWith(".tgz")) ?? "");
};

const requireOurs = async (directory: string, source: string): Promise<Package> => {
  const found = await readPackage(directory);
  if (found?.name === packageName && found.bin["svc"] !== undefined) return found;
  const what = found === null ? "has no package.json that can be read" : `is the package ${found.name}`;
  throw new Error(`${source} ${what}, not ${packageName} with its program svc`);
};

type Call = Pick<Request, "staging" | "env" | "signal"> & { timeoutSeconds: number };

const npm = async (
  args: readonly string[],
  { staging, env, signal, timeoutSeconds }: Call,
): Promise<void> => {
  const result = await runCommand({
    command: "npm",
    args: ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error", ...npmOptions, ...args],
    cwd: staging,
    // npm must judge by the Node that svc runs on.
    env: { ...env, PATH: `${dirname(process.execPath)}${delimiter}${env["PATH"] ?? ""}` },
    timeoutSeconds,
    signal,
  });
  if (result.exitCode === 0) return;
  const needed = /Required: \{.*?"node":"([^"]*)"/.exec(result.stderr)?.[1];
  if (needed !== undefined) {
    const here = `${process.versions.node} (${process.execPath})`;
    throw new Error(`The package needs Node ${needed}, and this is ${here}: install that one first`);
  }
  const said = withoutCredentials(result.stderr).replaceAll(/^npm error( code .*| A complete log.*)?/gm, "");
  const why = result.ended === "timed_out" ? ` in ${timeoutSeconds} s` : `: ${said.trim().slice(-1000)}`;
  throw new Error(`npm ${args[0]} did not succeed${why}`);
};
