import { randomUUID } from "node:crypto";
import { cp, mkdir, readdir, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { bundledRoot, sharedRoot } from "../profiles/roots.ts";

export type SharedFs = {
  shared_root: string;
  directories: { path: string; created: boolean }[];
  profiles: { name: string; path: string; copied: boolean }[];
};

/** Lays out a file system that instances share. What exists stays as it is; concurrent calls are safe. */
export const initSharedFs = async (root: string): Promise<SharedFs> => {
  const directories = [];
  for (const name of ["profiles", "repos", "jobs", "job-state"]) {
    const path = join(root, name);
    directories.push({ path, created: (await mkdir(path, { recursive: true })) !== undefined });
  }
  const [bundled, shared] = [bundledRoot().path, sharedRoot(root).path];
  const found = await readdir(shared);
  const profiles = [];
  for (const name of (await readdir(bundled)).toSorted()) {
    const path = join(shared, name);
    // Two profiles of one name in one directory would make both unusable.
    const isMissing = !found.includes(name) && !found.includes(`${name}.yml`);
    const copied = isMissing && (await copyWhole(join(bundled, name), path, root));
    profiles.push({ name, path, copied });
  }
  return { shared_root: root, directories, profiles };
};

/** One that is killed leaves no half profile. False: another call was faster. */
const copyWhole = async (from: string, to: string, root: string): Promise<boolean> => {
  const temporary = join(root, `.copy-${randomUUID()}`);
  try {
    await cp(from, temporary, { recursive: true });
    await rename(temporary, to);
    return true;
  } catch (error) {
    if (!["ENOTEMPTY", "EEXIST"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    return false;
  } finally {
    await rm(temporary, { recursive: true, force: true });
  }
};
