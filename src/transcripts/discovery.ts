import { createHash } from "node:crypto";
import { existsSync, lstatSync, statSync, watch, type FSWatcher, type Stats } from "node:fs";
import { readdir } from "node:fs/promises";
import { basename, join, relative, sep } from "node:path";
import type { Source, SourceKind } from "./corpus.ts";

export type Root = { path: string; format: "claude" | "codex"; machine: string };

/** A file that may be a source, as it was when it was looked at. `session_id` is empty where only the lines tell it. */
export type Found = FileState &
  Pick<Source, "id" | "machine" | "kind" | "path" | "project_encoded" | "session_id" | "name">;

export type FileState = Pick<Source, "size" | "modified" | "file_id" | "created">;

/** The result of a look. Nothing is known of what lies below paths that were not read: it does not count as deleted. */
export type Seen = { found: Found[]; unread: string[] };

type Options = {
  roots: readonly Root[];
  /** Kernels limit the watched directories of a user: beyond so many, looks find what has changed. */
  mostWatched: number;
  /** Says what to do about a path that is not read. */
  refuse: (path: string, why: string) => void;
};

/** The files of the homes. Of links only those are followed that a user puts in the place of a home or a project. */
export const createDiscovery = ({ roots, mostWatched, refuse }: Options) => {
  const directories = new Map<string, { modified: number; watcher: FSWatcher | null }>();
  /** `null`: directories are not watched. */
  let onChange: ((path: string) => void) | null = null;

  const forget = (path: string): void => {
    directories.get(path)?.watcher?.close();
    directories.delete(path);
  };

  const watched = (path: string): FSWatcher | null => {
    if (onChange === null || directories.size >= mostWatched) return null;
    try {
      const watcher = watch(path, { persistent: false }, (_, name) =>
        onChange?.(name === null ? path : join(path, name)),
      );
      return watcher.on("error", () => forget(path));
    } catch {
      return null;
    }
  };

  const leave = (seen: Seen, path: string, why: string): void => {
    refuse(path, why);
    seen.unread.push(path);
    forget(path);
  };

  /** Asynchronous calls take ten times as long for files by the thousand. */
  const visit = async (path: string, { root, isDeep, seen }: Visit): Promise<void> => {
    let stats: Stats | undefined;
    try {
      stats = statsOf(root, path);
    } catch (error) {
      return leave(seen, path, `it cannot be read (${codeOf(error)})`);
    }
    if (stats === undefined) {
      // A home that is not there may be a disk that is not mounted: nothing in it counts as deleted.
      if (path === root.path) seen.unread.push(path);
      return forget(path);
    }
    const place = placeOf(root, path);
    if (place !== null && stats.isFile()) seen.found.push({ ...place, ...toState(stats) });
    else if (stats.isDirectory() && mayHold(root, path))
      await visitDirectory(path, stats.mtimeMs, { root, isDeep, seen });
    else if (stats.isSymbolicLink() && (place !== null || mayHold(root, path)))
      leave(seen, path, "it is a link, which is not followed");
    else if (stats.isFile() && mayHold(root, path) && packed.test(path))
      refuse(path, "it is packed in a way that is not read: unpack it");
  };

  const visitDirectory = async (path: string, modified: number, look: Visit): Promise<void> => {
    const known = directories.get(path);
    if (!look.isDeep && known?.modified === modified && known.watcher !== null) return;
    // It is watched before it is read, so that nothing is missed in between.
    directories.set(path, { modified, watcher: known?.watcher ?? watched(path) });
    try {
      for (const name of await readdir(path)) await visit(join(path, name), look);
    } catch (error) {
      if (codeOf(error) === "ENOENT") forget(path);
      else leave(look.seen, path, `it cannot be read (${codeOf(error)})`);
    }
  };

  const look = async (paths: readonly string[], { isDeep }: { isDeep: boolean }): Promise<Seen> => {
    const seen: Seen = { found: [], unread: [] };
    for (const path of paths)
      for (const root of roots) if (isBelow(path, [root.path])) await visit(path, { root, isDeep, seen });
    return seen;
  };
  const homes = roots.map(({ path }) => path);

  return {
    all: () => look(homes, { isDeep: true }),
    at: (paths: readonly string[]) => look(paths, { isDeep: false }),
    /** The directories that were looked at, to be looked at again: one that is watched, with an unchanged time, is not read. */
    directories: (): string[] => [...homes, ...directories.keys()],
    /** From the next look on, calls `listener` with each path that changes in a directory that was looked at. */
    watch: (listener: (path: string) => void): void => void (onChange = listener),
    /** Number of directories that are looked at, but not watched. */
    unwatched: (): number => [...directories.values()].filter(({ watcher }) => watcher === null).length,
    unwatch: (): void => {
      onChange = null;
      for (const path of directories.keys()) forget(path);
    },
  };
};

/** `isDeep`: all below is looked at, whatever the times of directories say. */
type Visit = { root: Root; isDeep: boolean; seen: Seen };

/** A link that is followed has its target's. @throws Error of the file system, or when it leads nowhere */
const statsOf = (root: Root, path: string): Stats | undefined => {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats?.isSymbolicLink() !== true || (path !== root.path && !mayFollow(root, path))) return stats;
  const target = statSync(path, { throwIfNoEntry: false });
  if (target === undefined) throw new Error("a link that leads nowhere");
  return target;
};

export const toState = ({ size, mtimeMs, birthtimeMs: created, dev, ino }: Stats): FileState => ({
  size,
  modified: Math.trunc(mtimeMs),
  file_id: `${dev}:${ino}`,
  created,
});

/** Transcripts that nothing here unpacks; of Codex's own packing see `kinds`. */
const packed = /\.jsonl\.(?:gz|xz|bz2|br|lz4|zip|7z|zst)$/;

/** Directories that may hold sources, and the paths below them. */
const mayHold = ({ path: home, format }: Root, path: string): boolean =>
  (format === "codex" ? /^(?:$|(?:archived_)?sessions(?:\/|$))/ : /^(?:$|plans$|projects(?:\/|$))/).test(
    relative(home, path),
  );

/** Agents of the service can put links below its home, which has `origins.jsonl`; a user's home is the user's own. */
const mayFollow = ({ path: home, format }: Root, path: string): boolean =>
  format === "claude" &&
  /^projects(?:\/[^/]+)?$/.test(relative(home, path)) &&
  !existsSync(join(home, "origins.jsonl"));

/** The first that fits says what a file is. Without a session only the lines tell which one it belongs to. */
const kinds: Record<Root["format"], [SourceKind, RegExp][]> = {
  claude: [
    ["history", /^history\.jsonl$/],
    ["origins", /^origins\.jsonl$/],
    ["plan", /^plans\/[^/]+\.md$/],
    ["memory", /^projects\/(?<project>[^/]+)\/memory\/[^/]+\.md$/],
    ["session", /^projects\/(?<session>[^/]+)\.jsonl$/],
    ["subagent", /^projects\/(?<project>[^/]+)\/agent-[^/]*\.jsonl$/],
    ["session", /^projects\/(?<project>[^/]+)\/(?<session>[^/]+)\.jsonl$/],
    ["subagent", /^projects\/(?<project>[^/]+)\/(?<session>[^/]+)\/.+\.jsonl$/s],
  ],
  codex: [["codex", /^(?:archived_)?sessions\/(?:.+\/)?(?<session>rollout-[^/]*)\.jsonl(?:\.zst)?$/s]],
};

/** Which source a path is; null: none. */
const placeOf = (
  { path: home, format, machine }: Root,
  path: string,
): Omit<Found, keyof FileState> | null => {
  const below = relative(home, path);
  for (const [kind, pattern] of kinds[format]) {
    const groups = pattern.exec(below);
    if (groups === null) continue;
    return {
      id: createHash("sha256").update([machine, home, below].join("\0")).digest("hex").slice(0, 32),
      machine,
      kind,
      path,
      project_encoded: groups.groups?.["project"] ?? "",
      session_id: groups.groups?.["session"] ?? "",
      name: basename(path).replace(/\.(?:jsonl(?:\.zst)?|md)$/, ""),
    };
  }
  return null;
};

export const isBelow = (path: string, directories: readonly string[]): boolean =>
  directories.some((directory) => path === directory || path.startsWith(directory + sep));

export const codeOf = (error: unknown): string =>
  String((error as NodeJS.ErrnoException).code ?? (error as Error).message);
