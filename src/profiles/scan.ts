import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { errorCode, isMissing } from "./contained.ts";
import type { ProfileRoot } from "./roots.ts";

/** A file or directory that stands for a profile. */
export type Candidate = {
  /** From the name of the file or directory; `name` within the file wins. */
  name: string;
  root: ProfileRoot;
  /** Position of the root in the search order. */
  rank: number;
  /** `profile.yml`, or the single file. */
  file: string;
  /** Null: a single file. */
  directory: string | null;
  /** Its `CLAUDE.md` may also lie beside `.claude/`, as in the package of an agent of the hub. */
  isPackage?: true;
  /** Why it cannot be read at all. */
  fault: string | null;
};

/** `signature` changes whenever a file that makes up the profiles does. */
export type Scan = { candidates: Candidate[]; signature: string };

/** Everything is looked at before it is read: a change in between shows as a changed signature the next time. */
export const scan = async (roots: readonly ProfileRoot[]): Promise<Scan> => {
  const scans = await Promise.all(roots.map(scanRoot));
  return {
    candidates: scans.flatMap(({ candidates }) => candidates),
    signature: scans.map(({ signature }) => signature).join("\n"),
  };
};

/** Files of a profile directory whose content is kept in memory. */
const watchedFiles = ["profile.yml", ".claude", ".claude/settings.json", ".mcp.json"] as const;

const scanRoot = async (root: ProfileRoot, rank: number): Promise<Scan> => {
  const marks = [await mark(root.path)];
  const candidates: Candidate[] = [];
  for (const entry of (await entriesOf(root, rank, candidates)).toSorted()) {
    if (entry.startsWith(".")) continue;
    const path = join(root.path, entry);
    marks.push(await mark(path));
    if ((await stat(path).catch(() => null))?.isDirectory() === true) {
      marks.push(...(await Promise.all(watchedFiles.map((file) => mark(join(path, file))))));
      candidates.push(directoryCandidate({ root, rank, name: entry }));
    } else if (entry.endsWith(".yml")) {
      candidates.push({
        name: entry.slice(0, -".yml".length),
        root,
        rank,
        file: path,
        directory: null,
        fault: null,
      });
    } else if (entry.endsWith(".yaml")) {
      const fault = `is not read: rename it to ${entry.replace(/yaml$/, "yml")}`;
      candidates.push({ name: entry, root, rank, file: path, directory: null, fault });
    }
  }
  return { candidates, signature: marks.join("\n") };
};

const entriesOf = async (root: ProfileRoot, rank: number, candidates: Candidate[]): Promise<string[]> => {
  try {
    return await readdir(root.path);
  } catch (error) {
    if (isMissing(error)) return [];
    // Its profiles would be missing without a word: the directory itself is listed, with the error.
    const fault = `cannot be read (${errorCode(error)})`;
    candidates.push({ name: root.path, root, rank, file: root.path, directory: null, fault });
    return [];
  }
};

const directoryCandidate = ({ root, rank, name }: Pick<Candidate, "root" | "rank" | "name">): Candidate => {
  const directory = join(root.path, name);
  return { name, root, rank, file: join(directory, "profile.yml"), directory, fault: null };
};

/** Time of change, size and inode: a write, a rename into place and a change of rights all alter it. */
const mark = async (path: string): Promise<string> => {
  const status = await stat(path, { bigint: true }).catch(() => null);
  return status === null ? `${path} -` : `${path} ${status.ctimeNs} ${status.size} ${status.ino}`;
};
