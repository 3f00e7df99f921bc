import { access, constants, readFile, realpath, rename, rm, symlink } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { z } from "zod";
import { syncDirectory } from "../../lib/atomic-file.ts";
import { lockFile, LockTimeoutError, type FileLock } from "../../lib/file-lock.ts";

/** The name of the package. */
export const packageName = "svc-agent";

/** What is needed of a package.json; npm has checked its name and version. */
const Manifest = z.object({
  name: z.string(),
  version: z.string(),
  bin: z.record(z.string().regex(/^[a-z][\w-]*$/), z.string()).default({}),
  scripts: z.record(z.string(), z.string()).default({}),
});

export type Package = z.infer<typeof Manifest> & { directory: string };

/**
 * Two places for the package lie side by side in npm's directory of global packages. The links to the programs lead
 * into one of them, the other has the version before. An update fills the other one, then replaces the links: each
 * replacement is one rename, so there is a whole program at any moment, and running processes keep their files.
 */
export type Installation = { modules: string; bin: string; active: Package; other: string };

/** npm takes the second place for its own too, since its path begins with that of the first. */
const places = [packageName, `${packageName}.other`] as const;

/** @throws Error with a sentence that says what to do when npm has not installed this program for all to use */
export const findInstallation = async (program = import.meta.dirname): Promise<Installation> => {
  const root = dirname(program);
  const modules = dirname(root);
  const prefix = dirname(dirname(modules));
  const bin = join(prefix, "bin");
  const link = await realpath(join(bin, "svc")).catch(() => "");
  const [place = "", ...rest] = relative(modules, link).split("/");
  const isOurs = modules === join(prefix, "lib", "node_modules") && places.some((name) => name === place);
  const active = isOurs && rest.length > 0 ? await readPackage(join(modules, place)) : null;
  if (active !== null) {
    const other = places[0] === place ? places[1] : places[0];
    return { modules, bin, active, other: join(modules, other) };
  }
  const wayOut = "update a checkout with git pull, another package as it was installed";
  throw new Error(`${root} is not what "npm install --global" has installed: ${wayOut}`);
};

/** One update at a time. @throws Error when another one is under way, or this user may not change the installation */
export const lockInstallation = async (
  { modules, bin }: Installation,
  signal: AbortSignal,
): Promise<FileLock> => {
  for (const directory of [modules, bin]) {
    await access(directory, constants.W_OK).catch((cause: unknown) => {
      const wayOut = "run svc update as a user who may; in a container, use an image of the new version";
      throw new Error(`This user may not write to ${directory}: ${wayOut}`, { cause });
    });
  }
  const path = join(modules, `.${packageName}.lock`);
  return await lockFile({ path, timeoutSeconds: 2, signal }).catch((cause: unknown) => {
    if (!(cause instanceof LockTimeoutError)) throw cause;
    throw new Error(`Another update of ${modules} is under way; wait until it has ended`, { cause });
  });
};

/** Null: there is none that can be read. */
export const readPackage = async (directory: string): Promise<Package | null> => {
  try {
    const text = await readFile(join(directory, "package.json"), "utf8");
    return { ...Manifest.parse(JSON.parse(text)), directory };
  } catch {
    return null;
  }
};

/** Moves a package into the place that is not in use; what was there is removed. */
export const moveIn = async ({ modules, other }: Installation, fresh: Package): Promise<Package> => {
  await rm(other, { recursive: true, force: true });
  await rename(fresh.directory, other);
  await syncDirectory(modules);
  return { ...fresh, directory: other };
};

/** Lets the programs be those of this package; `svc`, which says which version is in use, comes last. */
export const activate = async (
  { bin }: Installation,
  { directory, bin: programs }: Package,
): Promise<void> => {
  const names = Object.keys(programs).toSorted((one) => (one === "svc" ? 1 : -1));
  for (const name of names) {
    const beside = join(bin, `.${name}.update`);
    await rm(beside, { force: true });
    await symlink(relative(bin, join(directory, programs[name] ?? "")), beside);
    await rename(beside, join(bin, name));
  }
  await syncDirectory(bin);
};
