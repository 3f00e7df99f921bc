import { mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { GitError } from "../lib/git.ts";
import { withoutWaiting } from "../lib/without-waiting.ts";
import type { LockHeld } from "./cache.ts";
import { gitDirVariables, runGit, type Room } from "./room.ts";

/** Whether git failed because the cached clone itself is broken (a crash of the machine, a full disk, a stray deletion). */
export const isDamage = (error: unknown): boolean => {
  if (!(error instanceof GitError)) return false;
  // What the server says of its own repository says nothing about ours.
  const ours = error.said.split("\n").filter((line) => !line.startsWith("remote:"));
  return ours.some((line) => damage.test(line));
};

const damage =
  /(object|pack|tree|blob|commit|index file|inflate|reference|ref)\b.*(corrupt|is empty|broken|missing|too small|truncated|cannot be|invalid)|bad (object|tree|signature)|unable to (read|resolve reference|parse)|not a git repository: '|did not send all necessary|invalid sha1 pointer|missing necessary objects|unexpected line in/i;

/**
 * Mends a git directory in place with the objects and remote refs of a fresh clone. In place, because the worktrees of
 * running jobs, their branches and what was salvaged live in it and must outlast it; whatever the remote does not have
 * is left as it is.
 */
export const heal = async (
  room: Room,
  { gitDir, fresh, jobId, lockFd, signal }: LockHeld & { gitDir: string; fresh: string },
): Promise<void> => {
  // Derived files: git does without them, and a broken one spoils what it describes.
  for (const derived of [
    "objects/info/commit-graph",
    "objects/info/commit-graphs",
    "objects/pack/multi-pack-index",
  ]) {
    await rm(join(gitDir, derived), { recursive: true, force: true });
  }
  await moveObjects(join(fresh, "objects"), join(gitDir, "objects"));
  for (const known of ["remotes", "tags"])
    await rm(join(gitDir, "refs", known), { recursive: true, force: true });
  await mendPackedRefs(join(gitDir, "packed-refs"));
  const call = { variables: gitDirVariables(gitDir), inheritFd: lockFd, jobId, signal };
  const { stdout } = await runGit(room, ["for-each-ref", "--format=update %(refname) %(objectname)"], {
    ...call,
    variables: gitDirVariables(fresh),
  });
  await runGit(room, ["update-ref", "--stdin"], { ...call, input: stdout });
};

/** A good copy of an object is found by git even when a broken one stands elsewhere, but not in its own place. */
const moveObjects = async (from: string, to: string): Promise<void> => {
  for (const folder of await readdir(from)) {
    await mkdir(join(to, folder), { recursive: true });
    const files = await readdir(join(from, folder));
    // A pack is read by way of its index, which therefore comes last.
    for (const file of files.toSorted((a, b) => Number(a.endsWith(".idx")) - Number(b.endsWith(".idx")))) {
      await rename(join(from, folder, file), join(to, folder, file));
    }
  }
};

/** Keeps the lines that name a ref: they may be branches of ours. */
const mendPackedRefs = async (file: string): Promise<void> => {
  const text = await readFile(file, { encoding: "utf8", flag: withoutWaiting.read }).catch(() => null);
  if (text === null) return;
  const refs = text.split("\n").filter((line) => /^[0-9a-f]{40} refs\/[^\s\0]+$/.test(line));
  await writeFileAtomic(file, refs.map((line) => `${line}\n`).join(""), 0o644);
};
