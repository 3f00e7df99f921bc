import { access, constants, mkdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { copyBundledProfiles, type CopiedProfile } from "./copy-bundled-profiles.ts";
import { codeOf, grant, rightsOf, type Rights } from "./rights.ts";

export type SharedFs = {
  shared_root: string;
  directories: { path: string; created: boolean }[];
  profiles: CopiedProfile[];
};

/**
 * Lays out a file system that instances share: `profiles/` with copies of the bundled profiles, `repos/`, `jobs/`,
 * `job-state/`. What is there is left as it is, and any number may do this at once.
 * @returns what was made, or `fault`: a sentence that says why it could not be and what to do
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

/** @throws the error itself when there is nothing to be said about it that helps */
export const faultOf = (path: string, error: unknown): string => {
  const told = sentences[codeOf(error)];
  if (told !== undefined) return `${path} ${told}`;
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
