import {
  access,
  constants,
  mkdir,
  stat,
  chmod,
  chown,
  copyFile,
  readdir,
  readFile,
  rename,
  rm,
} from "node:fs/promises";
import { join, dirname } from "node:path";
import { randomUUID } from "node:crypto";
import { loadLayer, scan } from "../profiles/load.ts";
import { bundledRoot, sharedRoot } from "../profiles/roots.ts";

export type SharedFs = {
  shared_root: string;
  directories: { path: string; created: boolean }[];
  profiles: CopiedProfile[];
};

/**
 * Lays out a file system that instances share: `profiles/` with copies of the bundled profiles, `repos/`, `jobs/`,
 * `job-state/`. Leaves existing files as they are; concurrent calls are safe.
 * @returns what was made, or `fault`: a sentence that says why it failed and what to do
 */
export const initSharedFs = async (root: string): Promise<SharedFs | { fault: string }> => {
  const within = { path: root };
  try {
    await mkdir(root, { recursive: true });
    await requireUsable(root);
    const rights = await rightsOf(root);
    const directories = [];
    for (const name of ["profiles", "repos", "jobs", "job-state"]) {
      within.path = join(root, name);
      directories.push({ path: within.path, created: await ensureDirectory(within.path, rights) });
      await requireUsable(within.path);
    }
    within.path = join(root, "profiles");
    return { shared_root: root, directories, profiles: await copyBundledProfiles(root, rights) };
  } catch (error) {
    return { fault: faultOf(within.path, error) };
  }
};

/** Whether it was made. */
const ensureDirectory = async (path: string, rights: Rights): Promise<boolean> => {
  try {
    await mkdir(path);
  } catch (error) {
    if (codeOf(error) === "EEXIST") return false;
    throw error;
  }
  await grant(path, rights);
  return true;
};

const requireUsable = async (path: string): Promise<void> => {
  if (!(await stat(path)).isDirectory())
    throw Object.assign(new Error("not a directory"), { code: "ENOTDIR" });
  await access(path, constants.R_OK | constants.W_OK | constants.X_OK);
};

/** @throws the error itself when no sentence would help */
export const faultOf = (path: string, error: unknown): string => {
  const sentence = sentences[codeOf(error)];
  if (sentence !== undefined) return `${path} ${sentence}`;
  throw error;
};

const sentences: Record<string, string> = {
  ENOTDIR: "is not a directory, or something on the way to it is not; name another shared root",
  EEXIST: "is not a directory; move it away, or name another shared root",
  ENOENT: "is a link that leads nowhere; make what it names, or remove it",
  ELOOP: "is a link that leads in circles; remove it",
  EROFS: "is on a file system that is read-only; mount it so that it can be written to",
  EACCES: "may not be written to by this user; change its owner or mode, or run this as a user that may",
  EPERM: "may not be written to by this user; change its owner or mode, or run this as a user that may",
  ENOSPC: "is on a file system without free room; make some",
  EDQUOT: "is on a file system whose quota is used up; make room, or raise it",
  ENAMETOOLONG: "is too long a path; name another shared root",
  EIO: "is on a file system that fails; see the log of the system",
  ESTALE: "is on a file system that has gone away; mount it again",
};

/** Owner and mode of what is made under the root. */
type Rights = { mode: number; owner: { uid: number; gid: number } | null };

/**
 * Whoever may write to the root may write to what is made in it: an administrator may run this, and the service as
 * another user.
 */
const rightsOf = async (root: string): Promise<Rights> => {
  const { mode, uid, gid } = await stat(root);
  return { mode: mode & 0o3777, owner: process.getuid?.() === 0 ? { uid, gid } : null };
};

/** Sets owner and mode of a new entry, whatever the umask is. Shared file systems may not support owners. */
const grant = async (path: string, { mode, owner }: Rights): Promise<void> => {
  const unlessRefused = (error: unknown): void => {
    if (!["EPERM", "ENOTSUP", "ENOSYS", "EINVAL"].includes(codeOf(error))) throw error;
  };
  if (owner !== null) await chown(path, owner.uid, owner.gid).catch(unlessRefused);
  await chmod(path, mode).catch(unlessRefused);
};

const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error ? String(error.code) : "";

/** `left`: why an existing file or directory stays, a sentence; null: it is the bundled profile. */
type CopiedProfile = { name: string; path: string; copied: boolean; left: string | null };

/** Copies missing profiles into `{root}/profiles`, which exists. Changes nothing that exists. */
const copyBundledProfiles = async (root: string, rights: Rights): Promise<CopiedProfile[]> => {
  const bundled = bundledRoot();
  const shared = sharedRoot(root);
  const layers = await Promise.all((await scan([shared])).sources.map(loadLayer));
  const copied: CopiedProfile[] = [];
  for (const name of (await readdir(bundled.path)).toSorted()) {
    const from = join(bundled.path, name);
    const path = join(shared.path, name);
    const other = layers.find((layer) => layer.name === name && layer.source.parts !== path);
    if (other !== undefined) {
      // Two profiles of one name in one directory would make both unusable.
      const left = `${other.source.file} is a profile named ${name} already: the bundled one was not copied`;
      copied.push({ name, path, copied: false, left });
    } else if (await copyWhole(from, path, rights)) copied.push({ name, path, copied: true, left: null });
    else copied.push({ name, path, copied: false, left: await differs(from, path) });
  }
  return copied;
};

/**
 * Copies under a name that is not read, then renames: no service sees part of a profile. False: something exists there
 * already.
 */
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
    // Another process was faster.
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

/** All entries below a directory, each directory before its content. */
const entriesOf = async (directory: string): Promise<{ path: string; directory: boolean }[]> => {
  const entries = await readdir(directory, { recursive: true });
  return Promise.all(
    entries
      .toSorted()
      .map(async (path) => ({ path, directory: (await stat(join(directory, path))).isDirectory() })),
  );
};
