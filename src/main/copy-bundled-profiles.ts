import { randomUUID } from "node:crypto";
import { copyFile, mkdir, readdir, readFile, rename, rm, stat } from "node:fs/promises";
import { dirname, join } from "node:path";
import { loadLayer, scan } from "../profiles/load.ts";
import { bundledRoot, sharedRoot } from "../profiles/roots.ts";
import { codeOf, grant, type Rights } from "./rights.ts";

/** `left`: why something else that was there stays, a sentence; null: it is the bundled one. */
export type CopiedProfile = { name: string; path: string; copied: boolean; left: string | null };

/** Copies those that are not there yet into `{root}/profiles`, which exists. Nothing that is there is changed. */
export const copyBundledProfiles = async (root: string, rights: Rights): Promise<CopiedProfile[]> => {
  const bundled = bundledRoot();
  const shared = sharedRoot(root);
  const layers = await Promise.all((await scan([shared])).sources.map(loadLayer));
  const copied: CopiedProfile[] = [];
  for (const name of (await readdir(bundled.path)).toSorted()) {
    const from = join(bundled.path, name);
    const path = join(shared.path, name);
    const other = layers.find((layer) => layer.name === name && layer.source.parts !== path);
    if (other !== undefined) {
      // A second one of that name in the same place would make both unusable.
      const left = `${other.source.file} is a profile named ${name} already: the bundled one was not copied`;
      copied.push({ name, path, copied: false, left });
    } else if (await copyWhole(from, path, rights)) copied.push({ name, path, copied: true, left: null });
    else copied.push({ name, path, copied: false, left: await differs(from, path) });
  }
  return copied;
};

/** Under a name that is not read, then renamed: no service sees a part of a profile. False: there is something already. */
const copyWhole = async (from: string, to: string, rights: Rights): Promise<boolean> => {
  if (await isThere(to)) return false;
  const beside = join(dirname(to), `.${randomUUID()}.tmp`);
  try {
    await mkdir(beside);
    await grant(beside, rights);
    for (const { path, directory } of await entriesOf(from)) {
      if (directory) await mkdir(join(beside, path));
      else await copyFile(join(from, path), join(beside, path));
      await grant(
        join(beside, path),
        directory ? rights : { ...rights, mode: (rights.mode & 0o666) | 0o600 },
      );
    }
    await rename(beside, to);
    return true;
  } catch (error) {
    // Somebody else was faster.
    if (["ENOTEMPTY", "EEXIST", "ENOTDIR"].includes(codeOf(error)) && (await isThere(to))) return false;
    throw error;
  } finally {
    await rm(beside, { recursive: true, force: true });
  }
};

const differs = async (from: string, to: string): Promise<string | null> => {
  for (const { path, directory } of await entriesOf(from)) {
    if (directory) continue;
    const [ours, theirs] = await Promise.all([from, to].map((each) => contentOf(join(each, path))));
    if (theirs === null || theirs === undefined || ours?.equals(theirs) !== true) {
      return `${join(to, path)} is not as in this version of svc and was left as it is; to have the bundled one, remove ${to} and run this again`;
    }
  }
  return null;
};

const contentOf = (path: string): Promise<Buffer | null> => readFile(path).catch(() => null);

const isThere = (path: string): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

/** All below, a directory before what is in it. */
const entriesOf = async (directory: string): Promise<{ path: string; directory: boolean }[]> => {
  const entries = await readdir(directory, { recursive: true });
  return Promise.all(
    entries
      .toSorted()
      .map(async (path) => ({ path, directory: (await stat(join(directory, path))).isDirectory() })),
  );
};
