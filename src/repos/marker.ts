import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { z } from "zod";
import { syncDirectory, temporarySuffix, writeFileAtomic } from "../lib/atomic-file.ts";
import { withoutWaiting } from "../lib/without-waiting.ts";
import { exhausted, isGitDirName, lostGitDir, ownerOf, takenBy } from "./ownership.ts";
import type { Worktree } from "./repos.ts";
import { cacheGitDir, type Room } from "./room.ts";

/**
 * The file that says a worktree is ours, kept beside the worktrees, where an agent at work in one does not come across
 * it. It is there before the directory and goes after it: a directory without one is never touched.
 */
const Marker = z.object({
  version: z.literal(1),
  /** False: the checkout was not finished, so no agent has been in it yet. */
  ready: z.boolean(),
  /** Links of the repository that were left out of the working tree because they point out of it. */
  leftOut: z.array(z.string()),
  worktree: z.object({
    worktreeId: z.string(),
    repoUrl: z.string(),
    repoKey: z
      .string()
      .regex(/^[0-9a-f]{12}$/)
      .nullable(),
    branch: z.string(),
    baseRef: z.string(),
    baseSha: z
      .string()
      .regex(/^[0-9a-f]{40}$/)
      .nullable(),
    warnings: z.array(z.string()),
  }),
  /** The instance that made it; null: an older version did not say. */
  instance: z.string().nullable().default(null),
  /** Name of the administrative directory; null: the id. */
  admin: z.string().nullable().default(null),
});

export type Marker = { ready: boolean; leftOut: string[]; worktree: Worktree };

/** What the disk says besides. */
export type ReadMarker = Marker & {
  instance: string | null;
  /** The instance that has made a worktree of this id since, in the same clone, and has its branch; null: none has. */
  takenBy: string | null;
};

export const ownedDirectory = ({ settings }: Room): string => join(settings.worktreeRoot, ".owned");

/** Ids become names of files and directories. */
export const isWorktreeId = (id: string): boolean => /^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/.test(id);

/** @throws Error for what is no id, and might lead anywhere */
export const worktreePath = ({ settings }: Room, id: string): string => {
  if (!isWorktreeId(id)) throw new Error(`"${id}" is no worktree id`);
  return join(settings.worktreeRoot, id);
};

/** The paths follow from the id; they are not believed from a file. */
export const locate = (
  room: Room,
  id: string,
  repoKey: string | null,
  admin: string | null = null,
): Pick<Worktree, "path" | "gitDir" | "commonDir"> => {
  const path = worktreePath(room, id);
  const scratch = join(ownedDirectory(room), `${id}.git`);
  if (repoKey === null) return { path, gitDir: scratch, commonDir: scratch };
  const commonDir = cacheGitDir(room, repoKey);
  const name = admin !== null && isGitDirName(admin, id) ? admin : id;
  return { path, gitDir: join(commonDir, "worktrees", name), commonDir };
};

/** Null: there is none, or what is there is not of our making, be it a directory, a link or unreadable. */
export const readMarker = async (room: Room, id: string): Promise<ReadMarker | null> => {
  if (!isWorktreeId(id)) return null;
  const text = await readFile(markerFile(room, id), {
    encoding: "utf8",
    flag: withoutWaiting.read,
  }).catch((error: unknown) => {
    // When the machine is at its limits, nothing is known about the marker.
    if (!(error instanceof Error && "code" in error) || exhausted.has(String(error.code))) throw error;
    return null;
  });
  const parsed = Marker.safeParse(parseJson(text));
  if (!parsed.success || parsed.data.worktree.worktreeId !== id) return null;
  const { worktree, ready, leftOut, instance, admin } = parsed.data;
  const place = locate(room, id, worktree.repoKey, admin);
  const found = { ready, leftOut, instance, takenBy: null, worktree: { ...worktree, ...place } };
  if (worktree.repoKey === null) return found;
  const owner = await ownerOf(place.gitDir);
  if (instance === null || owner === null || owner === instance)
    return { ...found, takenBy: await takenBy(place.gitDir) };
  // Its administrative directory is gone, and the name given to another instance's.
  const gitDir = lostGitDir(place.commonDir, id);
  return { ...found, takenBy: owner, worktree: { ...found.worktree, gitDir } };
};

/** Durable when it resolves. */
export const writeMarker = async (room: Room, marker: Marker): Promise<void> => {
  await mkdir(ownedDirectory(room), { recursive: true });
  await writeFileAtomic(markerFile(room, marker.worktree.worktreeId), serialise(room, marker));
};

/** As `writeMarker`, but safe only from a kill of the service, not from a crash of the machine: no wait for the disk. */
export const announce = async (room: Room, marker: Marker): Promise<void> => {
  await mkdir(ownedDirectory(room), { recursive: true });
  const file = markerFile(room, marker.worktree.worktreeId);
  await writeFile(`${file}.new`, serialise(room, marker), { mode: 0o600 });
  await rename(`${file}.new`, file);
};

export const removeMarker = async (room: Room, id: string): Promise<void> => {
  await rm(markerFile(room, id), { force: true });
  await syncDirectory(ownedDirectory(room));
};

export const listMarkers = async (room: Room): Promise<string[]> => {
  const names = (await ownedNames(room)).filter((name) => name.endsWith(markerSuffix));
  return names
    .map((name) => name.slice(0, -markerSuffix.length))
    .filter(isWorktreeId)
    .toSorted();
};

/** Markers that were being written when the service was killed. */
export const removeTornMarkers = async (room: Room): Promise<void> => {
  for (const name of await ownedNames(room)) {
    if (name.endsWith(temporarySuffix) || name.endsWith(`${markerSuffix}.new`))
      await rm(join(ownedDirectory(room), name), { force: true });
  }
};

/** Whatever lies beside the markers. */
export const ownedNames = (room: Room): Promise<string[]> =>
  readdir(ownedDirectory(room)).catch((error: unknown) => {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return [];
    throw error;
  });

const markerSuffix = ".json";

export const markerFile = (room: Room, id: string): string =>
  join(ownedDirectory(room), `${id}${markerSuffix}`);

const serialise = ({ settings }: Room, { ready, leftOut, worktree }: Marker): string => {
  const { path: _path, gitDir, commonDir: _commonDir, ...kept } = worktree;
  const maker = { instance: settings.podName, admin: kept.repoKey === null ? null : basename(gitDir) };
  return `${JSON.stringify({ version: 1, ready, leftOut, worktree: kept, ...maker }, null, 2)}\n`;
};

const parseJson = (text: string | null): unknown => {
  try {
    return text === null ? null : JSON.parse(text);
  } catch {
    // A foreign or torn file is no marker.
    return null;
  }
};
