import { execFileSync } from "node:child_process";
import { chmod, cp, mkdir, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { startSvc, type Run } from "../cli/run-svc.ts";
import { temporaryDirectory } from "../temporary.ts";

const built = (): string => dirname(process.env["TEST_PROGRAM"] ?? "");

/** The package of the program that the suite has built, with another version, in this directory. */
export const makePackage = async (version: string, directory: string): Promise<string> => {
  const dist = join(directory, "dist");
  // Without what takes npm long to pack and is not needed here.
  const filter = (path: string): boolean => !/docs-ui|LICENSES|\/web(\/|$)/.test(path.slice(built().length));
  await cp(built(), dist, { recursive: true, filter });
  await writeManifest(directory, { version });
  for (const name of await readdir(dist)) {
    if (!name.endsWith(".mjs")) continue;
    const text = await readFile(join(dist, name), "utf8");
    const changed = text.replace(`const version = "0.1.0"`, `const version = "${version}"`);
    if (changed !== text) await writeFile(join(dist, name), changed);
  }
  return directory;
};

type Change = { name?: string; node?: string; script?: string };

/** A package whose program says its version, and that it accepts any store: its directory, and beside it the tarball. */
export const makeSmallPackage = async (version: string, change: Change = {}): Promise<string> => {
  const directory = join(await temporaryDirectory(), "package");
  const store = `{ name: "store", status: "ok", message: "" }`;
  const { script = "" } = change;
  const program = `${script}
    console.log(process.argv[2] === "version" ? "svc ${version}" : JSON.stringify({ checks: [${store}] }));`;
  await mkdir(join(directory, "dist"), { recursive: true });
  for (const name of ["svc", "bridge"]) await writeFile(join(directory, "dist", `${name}.mjs`), program);
  await writeManifest(directory, { version, ...change });
  execFileSync("tar", ["-czf", `${directory}.tgz`, "-C", dirname(directory), "package"]);
  return directory;
};

const writeManifest = (
  directory: string,
  { version, name = "svc-agent", node = ">=24" }: Change & { version: string },
): Promise<void> => {
  const bin = { svc: "dist/svc.mjs", bridge: "dist/bridge.mjs" };
  const manifest = { name, version, type: "module", bin, engines: { node } };
  return writeFile(join(directory, "package.json"), JSON.stringify(manifest));
};

/** What npm and svc get of the environment: nothing of this machine's settings, and nowhere to download from. */
const environment = {
  PATH: `${dirname(process.execPath)}:${process.env["PATH"]}`,
  npm_config_offline: "true",
  npm_config_userconfig: "/nonexistent",
  SERVICE_PORT: "1",
  SERVICE_AGENT_CLI_BINARY: "true",
};

/** A prefix as `npm install --global` makes it, with version 0.1.0. */
export const install = async () => {
  const prefix = await realpath(await temporaryDirectory());
  // Other users may look at it.
  await chmod(prefix, 0o755);
  const directory = join(prefix, "lib", "node_modules", "svc-agent");
  await makePackage("0.1.0", directory);
  const versions = join(prefix, "lib", "svc-agent");
  const bin = join(prefix, "bin");
  for (const name of ["svc", "bridge"]) await chmod(join(directory, "dist", `${name}.mjs`), 0o755);
  /** As npm leaves it. */
  const reset = async (): Promise<void> => {
    for (const path of [versions, bin]) await rm(path, { recursive: true, force: true });
    await mkdir(bin);
    for (const name of ["svc", "bridge"])
      await symlink(`../lib/node_modules/svc-agent/dist/${name}.mjs`, join(bin, name));
  };
  const home = await temporaryDirectory();
  // Not beside what is compiled for all runs: no other has these paths.
  const own = { ...environment, HOME: home, NODE_COMPILE_CACHE: join(home, "compiled") };
  // Named: what the links lead to may be a small package, which cannot update.
  const program = [process.execPath, join(directory, "dist", "svc.mjs")];
  const svc = (args: string[], env: Record<string, string> = {}): Run =>
    startSvc(args, { program, env: { ...own, ...env } });
  return {
    prefix,
    home,
    env: own,
    program,
    versions,
    reset,
    update: (source: string, env?: Record<string, string>): Run =>
      svc(["update", "--json", "--source", source], env),
    rollback: (env?: Record<string, string>): Run => svc(["update", "--json", "--rollback"], env),
    /** The versions of the packages that the links to the programs lead to. */
    inUse: async (): Promise<string[]> =>
      await Promise.all(
        ["svc", "bridge"].map(async (name) => {
          const file = await realpath(join(prefix, "bin", name));
          const text = await readFile(join(dirname(dirname(file)), "package.json"), "utf8");
          return (JSON.parse(text) as { version: string }).version;
        }),
      ),
  };
};
