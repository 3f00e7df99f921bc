import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { writeFileAtomic } from "../lib/atomic-file.ts";
import { withoutWaiting } from "../lib/without-waiting.ts";
import { commitOf } from "./base.ts";
import type { Room } from "./room.ts";

/*
 * Instances on several hosts may share the cached clones, while each has its worktrees on its own disk. The administrative
 * directory of a worktree (`repo.git/worktrees/…`) then lies among those of others. Two files in it keep them apart:
 * `service-instance` names the instance that made the worktree, `service-taken` the one that makes another worktree of the
 * same id, since the first instance was lost. The first one's directory keeps all that it has, but not the branch: what
 * is at work there still, or comes back one day, finds everything and moves nothing.
 */
const ownerFile = "service-instance";
const takenFile = "service-taken";

/** Names the maker of a worktree, unless that is told already. */
export const writeOwner = (gitDir: string, instance: string): Promise<void> =>
  writeFile(join(gitDir, ownerFile), `${instance}\n`, { flag: "wx", mode: 0o644 }).catch((error: unknown) => {
    if (!(error instanceof Error) || !("code" in error) || error.code !== "EEXIST") throw error;
  });

/** The reason for the lock of a worktree, which git writes before it checks anything out. */
export const lockReason = (instance: string): string => `service-instance ${instance}`;

/** The instance that an administrative directory is of; null: it does not say. The lock tells it when a crash came before our file. */
export const ownerOf = async (gitDir: string): Promise<string | null> =>
  (await lineOf(join(gitDir, ownerFile))) ??
  /^service-instance (\S+)$/.exec((await lineOf(join(gitDir, "locked"))) ?? "")?.[1] ??
  null;

/** The instance that has a worktree of this id now; null: no other has. */
export const takenBy = (gitDir: string): Promise<string | null> => lineOf(join(gitDir, takenFile));

type Making = { commonDir: string; worktreeId: string; signal: AbortSignal };

/**
 * Makes room for a worktree that is to be made: what a crash of ours has left goes; the branch is taken from the worktrees
 * of this id that other instances have. With the repository's lock held.
 */
export const makeRoom = async (
  room: Room,
  { commonDir, worktreeId, signal }: Making,
  ours: (string | null)[],
): Promise<void> => {
  for (const gitDir of await ofWorktree(commonDir, worktreeId)) {
    const owner = await ownerOf(gitDir);
    if (owner === null || owner === room.settings.podName || ours.includes(owner))
      await rm(gitDir, { recursive: true, force: true });
    else await takeFrom(room, { commonDir, gitDir, signal });
  }
};

/** An administrative directory that is not there yet, in the form that git gives it. */
export const freeGitDir = async (commonDir: string, worktreeId: string): Promise<string> => {
  const taken = new Set(await namesIn(commonDir));
  let name = worktreeId;
  for (let count = 1; taken.has(name); count += 1) name = `${worktreeId}${count}`;
  return join(commonDir, "worktrees", name);
};

/** What an administrative directory of this id may be called. */
export const isGitDirName = (name: string, worktreeId: string): boolean =>
  name.startsWith(worktreeId) && /^(\d{0,6}|\.lost)$/.test(name.slice(worktreeId.length));

/** Where the administrative directory of a worktree whose own was given to another instance is made anew. */
export const lostGitDir = (commonDir: string, worktreeId: string): string =>
  join(commonDir, "worktrees", `${worktreeId}.lost`);

const ofWorktree = async (commonDir: string, worktreeId: string): Promise<string[]> => {
  const found: string[] = [];
  for (const name of await namesIn(commonDir)) {
    const gitDir = join(commonDir, "worktrees", name);
    if (name === worktreeId) found.push(gitDir);
    else if (isGitDirName(name, worktreeId) && (await idOf(gitDir)) === worktreeId) found.push(gitDir);
  }
  return found;
};

/** Git adds a number to a name that is taken: whose it is, is told by the directory that it is tied to. */
const idOf = async (gitDir: string): Promise<string> =>
  basename(dirname((await lineOf(join(gitDir, "gitdir"))) ?? ""));

const takeFrom = async (
  room: Room,
  { commonDir, gitDir, signal }: { commonDir: string; gitDir: string; signal: AbortSignal },
): Promise<void> => {
  await writeFileAtomic(join(gitDir, takenFile), `${room.settings.podName}\n`, 0o644);
  const head = (await lineOf(join(gitDir, "HEAD"))) ?? "";
  const branch = /^ref: (\S+)$/.exec(head)?.[1];
  if (branch === undefined) return;
  const at = await commitOf(room, { gitDir: commonDir, name: branch, signal });
  const instead = at ?? `ref: refs/heads/${lostBranch(basename(gitDir))}`;
  await writeFileAtomic(join(gitDir, "HEAD"), `${instead}\n`, 0o644);
};

/** Nobody makes a branch of this name: it stands for none. */
export const lostBranch = (name: string): string => `service-lost/${name}`;

/** The head of an administrative directory that lost its own, so that work is saved as what was done beyond the base. */
export const headAt = async (gitDir: string, commit: string | null): Promise<void> => {
  if (commit === null || (await lineOf(join(gitDir, "HEAD"))) !== null) return;
  await mkdir(gitDir, { recursive: true });
  await writeFileAtomic(join(gitDir, "HEAD"), `${commit}\n`, 0o644);
};

const namesIn = (commonDir: string): Promise<string[]> =>
  readdir(join(commonDir, "worktrees")).catch((error: unknown) => unlessThere(error, []));

const lineOf = async (file: string): Promise<string | null> => {
  const text = await readFile(file, { encoding: "utf8", flag: withoutWaiting.read }).catch((error: unknown) =>
    unlessThere(error, ""),
  );
  return text.split("\n", 1)[0] || null;
};

/** When the machine, or the file system that is shared, is at its limits, nothing is known. */
const unlessThere = <Value>(error: unknown, instead: Value): Value => {
  if (!(error instanceof Error && "code" in error) || exhausted.has(String(error.code))) throw error;
  return instead;
};

export const exhausted = new Set(["EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EIO", "ESTALE", "ETIMEDOUT"]);
