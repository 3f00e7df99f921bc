import { execFile } from "node:child_process";
import { chmod, cp, mkdir, readdir, readFile, realpath, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { publishedManifest } from "../../tools/pack/manifest.ts";
import { startSvc, type Run } from "../cli/run-svc.ts";
import { compileCache } from "../compile-cache.ts";
import { temporaryDirectory } from "../temporary.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "..", "..");

type Change = {
  name?: string;
  node?: string;
  /** Replaces a text that is in exactly one file of the program. */
  replace?: readonly [from: string, to: string];
};

/** The package as it is published, of the program that the suite has built, with another version and what else is to differ. */
export const makePackage = async (version: string, change: Change = {}): Promise<string> => {
  const directory = await temporaryDirectory();
  const manifest = JSON.parse(
    publishedManifest(await readFile(join(root, "package.json"), "utf8")),
  ) as object;
  const { name = "svc-agent", node = ">=24", replace } = change;
  const changed = { ...manifest, name, version, files: ["dist"], engines: { node } };
  await writeFile(join(directory, "package.json"), JSON.stringify(changed));
  const dist = join(directory, "dist");
  // Without what takes npm long to pack and is not needed here.
  const filter = (path: string): boolean => !/docs-ui|LICENSES|\/web(\/|$)/.test(path.slice(root.length));
  await cp(dirname(process.env["TEST_PROGRAM"] ?? ""), dist, { recursive: true, filter });
  await replaceIn(dist, `const version = "0.1.0"`, `const version = "${version}"`);
  if (replace !== undefined) await replaceIn(dist, ...replace);
  return directory;
};

const replaceIn = async (directory: string, from: string, to: string): Promise<void> => {
  const files = (await readdir(directory)).filter((name) => name.endsWith(".mjs"));
  const texts = await Promise.all(files.map((name) => readFile(join(directory, name), "utf8")));
  const found = files.filter((_, at) => texts[at]?.includes(from));
  if (found.length !== 1) throw new Error(`${from} is in ${found.length} files of the program`);
  const path = join(directory, found[0] ?? "");
  await writeFile(path, (await readFile(path, "utf8")).replace(from, to));
};

/** What npm and svc get of the environment: nothing of this machine's settings, and nowhere to download from. */
const npmEnvironment = {
  PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
  npm_config_offline: "true",
  npm_config_userconfig: "/nonexistent",
};

/** The tarball of a package. */
export const pack = async (directory: string): Promise<string> => {
  const target = await temporaryDirectory();
  const args = ["pack", "--loglevel=error", "--pack-destination", target, directory];
  await run("npm", args, { env: { ...npmEnvironment, NODE_COMPILE_CACHE: compileCache, HOME: target } });
  return join(target, (await readdir(target)).find((name) => name.endsWith(".tgz")) ?? "");
};

/** A prefix that npm has installed a tarball into. */
export const install = async (tarball: string): Promise<Installed> => {
  const prefix = await temporaryDirectory();
  const args = ["install", "--global", "--loglevel=error", "--prefix", prefix, tarball];
  await run("npm", args, { env: { ...npmEnvironment, NODE_COMPILE_CACHE: compileCache, HOME: prefix } });
  return await installedIn(prefix);
};

/** Another prefix like this one. */
export const copyOf = async ({ prefix }: Installed): Promise<Installed> => {
  const copy = await temporaryDirectory();
  await cp(prefix, copy, { recursive: true, verbatimSymlinks: true });
  return await installedIn(copy);
};

export type Installed = Awaited<ReturnType<typeof installedIn>>;

const installedIn = async (prefix: string) => {
  // Other users may look at it.
  await chmod(prefix, 0o755);
  const home = await temporaryDirectory();
  await mkdir(join(home, ".service"));
  const program = [join(prefix, "bin", "svc")];
  const svc = (args: string[], env: Record<string, string> = {}): Run =>
    startSvc(args, { program, env: { ...npmEnvironment, HOME: home, SERVICE_PORT: "1", ...env } });
  return {
    prefix,
    home,
    program,
    modules: join(prefix, "lib", "node_modules"),
    svc,
    update: (source: string, env?: Record<string, string>): Run =>
      svc(["update", "--yes", "--json", "--source", source], env),
    rollback: (env?: Record<string, string>): Run => svc(["update", "--yes", "--json", "--rollback"], env),
    /** What `svc` says that it is, and the version of the package that `bridge` leads to. */
    versions: async (): Promise<string[]> => {
      const { stdout } = await svc(["version"]).ended;
      const bridge = dirname(dirname(await realpath(join(prefix, "bin", "bridge"))));
      const { version } = JSON.parse(await readFile(join(bridge, "package.json"), "utf8")) as {
        version: string;
      };
      return [stdout.trim(), `bridge ${version}`];
    },
  };
};
