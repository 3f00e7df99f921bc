import { mkdir, readdir, stat } from "node:fs/promises";
import { delimiter, dirname, join, resolve } from "node:path";
import { CommandMissingError, runCommand } from "../../lib/command.ts";
import { git, withoutCredentials } from "../../lib/git.ts";
import { packageName, readPackage, type Package } from "./installation.ts";

type Request = {
  /** The package's name, with a version or not; a git URL with or without `#branch`; a directory; a tarball. */
  source: string;
  /** An empty directory for what is fetched, on the file system of the installation. */
  staging: string;
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  say: (sentence: string) => void;
};

/**
 * Fetches and unpacks the package of this source with npm, which runs no script of it. Only a checkout, in a directory
 * or fetched with git, is built by its own scripts.
 * @throws Error with a sentence for the user: also for another package, and for one that needs another Node
 */
export const fetchPackage = async (request: Request): Promise<Package> => {
  const { staging, say } = request;
  const source = await parse(request.source);
  const shown = withoutCredentials(request.source);
  let { spec } = source;
  if (source.kind === "name" || source.kind === "file") say(`Fetching ${shown}`);
  if (source.kind === "git") spec = await checkOut(request, source);
  if (source.kind === "git" || source.kind === "directory") spec = await pack(request, spec);
  const install = ["install", "--global", "--prefix", staging, "--ignore-scripts", "--engine-strict"];
  await npm([...install, "--", spec], { ...request, timeoutSeconds: 300 });
  const modules = join(staging, "lib", "node_modules");
  const [name = ""] = await readdir(modules);
  const found = await requireOurs(join(modules, name), shown);
  if (found.bin["svc"] === undefined) throw new Error(`${shown} has no program svc`);
  return found;
};

type Source = { kind: "name" | "file" | "directory" | "git"; spec: string; ref: string };

const parse = async (text: string): Promise<Source> => {
  if (new RegExp(`^${packageName}(@[\\w.^~<>=*-]+)?$`).test(text))
    return { kind: "name", spec: text, ref: "" };
  const [url = "", ref = ""] = text.replace(/^git\+/, "").split("#");
  if (/^https?:.*\.tgz$/.test(url)) return { kind: "file", spec: url, ref };
  if (/^((https?|ssh|file):\/\/|[\w.-]+@[\w.-]+:)./.test(url)) return { kind: "git", spec: url, ref };
  const spec = resolve(text);
  const found = text === "" ? null : await stat(spec).catch(() => null);
  if (found === null) {
    throw new Error(
      `The source "${text}" is neither ${packageName} (or ${packageName}@VERSION), nor a git URL, nor a directory or .tgz that exists`,
    );
  }
  return { kind: found.isDirectory() ? "directory" : "file", spec, ref };
};

const checkOut = async ({ staging, env, signal, say }: Request, { spec, ref }: Source): Promise<string> => {
  const directory = join(staging, "checkout");
  await mkdir(directory);
  say(`Fetching ${withoutCredentials(spec)}`);
  const options = { cwd: directory, env, signal, timeoutSeconds: 600 };
  await git(["init", "--quiet"], options);
  await git(["fetch", "--quiet", "--depth", "1", "--", spec, ref || "HEAD"], options);
  await git(["checkout", "--quiet", "FETCH_HEAD"], options);
  return directory;
};

/** The tarball of a directory. Its name is checked first: packing runs its scripts. */
const pack = async (request: Request, directory: string): Promise<string> => {
  const { staging, say } = request;
  const { scripts } = await requireOurs(directory, directory);
  const isBuilt = scripts["prepack"] !== undefined || scripts["prepare"] !== undefined;
  say(isBuilt ? `Building ${directory}: a minute, or some when its packages are to be fetched` : "Packing");
  await npm(["pack", "--pack-destination", staging, "--", directory], { ...request, timeoutSeconds: 1800 });
  const tarball = (await readdir(staging)).find((name) => name.endsWith(".tgz"));
  if (tarball === undefined) throw new Error(`npm has made no package of ${directory}`);
  return join(staging, tarball);
};

const requireOurs = async (directory: string, source: string): Promise<Package> => {
  const found = await readPackage(directory).catch(() => null);
  if (found?.name === packageName) return found;
  const what = found === null ? "has no package.json that can be read" : `is the package ${found.name}`;
  throw new Error(`${source} ${what}, not ${packageName}`);
};

type Call = Pick<Request, "staging" | "env" | "signal"> & { timeoutSeconds: number };

const npm = async (
  args: readonly string[],
  { staging, env, signal, timeoutSeconds }: Call,
): Promise<void> => {
  const quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"];
  const [command = "", ...rest] = args;
  const result = await runCommand({
    command: "npm",
    args: [command, ...quiet, ...rest],
    cwd: staging,
    // npm must judge by the Node that svc runs on.
    env: { ...env, PATH: `${dirname(process.execPath)}${delimiter}${env["PATH"] ?? ""}` } as Record<
      string,
      string
    >,
    timeoutSeconds,
    signal,
  }).catch((error: unknown) => {
    if (!(error instanceof CommandMissingError)) throw error;
    throw new Error("npm, which fetches packages, could not be started: install it, or put it on PATH", {
      cause: error,
    });
  });
  if (result.exitCode === 0) return;
  const needed = /Required: \{.*?"node":"([^"]*)"/.exec(result.stderr)?.[1];
  if (needed !== undefined) {
    const here = `${process.versions.node} (${process.execPath})`;
    throw new Error(`The package needs Node ${needed}, and this is ${here}: install that one first`);
  }
  const why =
    result.ended === "timed_out" ? `was not done in ${timeoutSeconds} s` : `failed: ${reason(result.stderr)}`;
  throw new Error(`npm ${command} ${why}`);
};

/** What npm says, without its codes and the name of its log; or the last lines of a script. */
const reason = (stderr: string): string => {
  const lines = withoutCredentials(stderr).trim().split("\n");
  const said = lines.flatMap(
    (line) => /^npm error (?!code |errno |A complete log|$)(.*)/.exec(line)?.[1] ?? [],
  );
  return (said.length > 0 ? said : lines).slice(-4).join("; ").slice(-500);
};
