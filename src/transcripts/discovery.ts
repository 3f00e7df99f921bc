import { createHash } from "node:crypto";
import { statSync, type Stats } from "node:fs";
import { readdir, realpath } from "node:fs/promises";
import { basename, join, relative, sep } from "node:path";
import type { SourceKind } from "./corpus.ts";

export type Root = { path: string; format: "claude" | "codex"; machine: string };

/** A file that may be a source, as it was when it was looked at. */
export type Found = Place & FileState;

/** What a path says. `session_id` is empty where only the lines tell it. */
type Place = {
  id: string;
  machine: string;
  kind: SourceKind;
  path: string;
  project_encoded: string;
  session_id: string;
  name: string;
};

export type FileState = { size: number; modified: number; file_id: string };

export type Discovery = {
  found: Found[];
  directories: string[];
  /** Directories that could not be read: nothing is known of what lies below them. */
  unread: string[];
};

/** Says what to do about a path that is not read. */
export type Refuse = (path: string, why: string) => void;

/** All files of the homes that are sources. A file with several names in sight appears under each. */
export const discover = async (roots: readonly Root[], refuse: Refuse): Promise<Discovery> => {
  const all: Discovery = { found: [], directories: [], unread: [] };
  for (const root of roots) await walkRoot(root, all, refuse);
  return all;
};

const walkRoot = async (root: Root, all: Discovery, refuse: Refuse): Promise<void> => {
  const home = await realpath(root.path).catch(() => null);
  // A home that is not there may be a disk that is not mounted: nothing in it counts as deleted.
  if (home === null) return void all.unread.push(root.path);
  const visited = new Set<string>();
  const links: string[] = [];

  const walk = async (directory: string, real: string): Promise<void> => {
    if (visited.has(real)) return;
    visited.add(real);
    const entries = await readdir(directory, { withFileTypes: true }).catch((error: unknown) => {
      if (codeOf(error) === "ENOENT") return [];
      refuse(directory, `the directory cannot be read (${codeOf(error)})`);
      return (all.unread.push(directory), []);
    });
    all.directories.push(directory);
    for (const entry of entries) {
      const path = join(directory, entry.name);
      if (entry.isSymbolicLink()) links.push(path);
      else if (entry.isDirectory() && mayHold(root, path)) await walk(path, join(real, entry.name));
      else if (entry.isFile()) take(path);
    }
  };

  const take = (path: string): void => {
    const place = placeOf(root, path);
    const state = place === null ? null : stateOf(path);
    if (place !== null && state !== null) all.found.push({ ...place, ...state });
  };

  const follow = async (link: string): Promise<void> => {
    const isWanted = placeOf(root, link) !== null || mayHold(root, link);
    const real = isWanted ? await realpath(link).catch(() => null) : null;
    if (real === null) return;
    if (real !== home && !real.startsWith(home + sep))
      return refuse(link, "it is a link to a place outside of the home, and is not followed");
    if (statSync(real).isDirectory()) await walk(link, real);
    else take(link);
  };

  await walk(root.path, home);
  // After everything else: what a link points to has its own name first.
  for (let link = links.shift(); link !== undefined; link = links.shift())
    await follow(link).catch(() => undefined);
};

/** Null: it is no regular file, or is not there. Asynchronous calls take ten times as long for files by the thousand. */
const stateOf = (path: string): FileState | null => {
  try {
    return toState(statSync(path));
  } catch {
    return null;
  }
};

/** @throws Error when it is no regular file */
export const toState = (stats: Stats): FileState => {
  if (!stats.isFile()) throw new Error("it is not a regular file");
  return {
    size: stats.size,
    modified: Math.trunc(stats.mtimeMs),
    file_id: `${stats.dev}:${stats.ino}`,
  };
};

/** Whether sources may lie below a directory. */
const mayHold = ({ path: home, format }: Root, path: string): boolean => {
  const [first] = relative(home, path).split(sep);
  return format === "codex" ? first === "sessions" : first === "projects" || relative(home, path) === "plans";
};

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
  codex: [["codex", /^sessions\/(?:.+\/)?(?<session>rollout-[^/]*)\.jsonl$/s]],
};

/** Which source a path is; null: none. */
const placeOf = ({ path: home, format, machine }: Root, path: string): Place | null => {
  const below = relative(home, path);
  for (const [kind, pattern] of kinds[format]) {
    const groups = pattern.exec(below);
    if (groups === null) continue;
    return {
      id: sourceId(machine, home, below),
      machine,
      kind,
      path,
      project_encoded: groups.groups?.["project"] ?? "",
      session_id: groups.groups?.["session"] ?? "",
      name: basename(path).replace(/\.(jsonl|md)$/, ""),
    };
  }
  return null;
};

export const sourceId = (...parts: string[]): string =>
  createHash("sha256").update(parts.join("\0")).digest("hex").slice(0, 32);

export const isBelow = (path: string, directories: readonly string[]): boolean =>
  directories.some((directory) => path === directory || path.startsWith(directory + sep));

export const codeOf = (error: unknown): string =>
  String((error as NodeJS.ErrnoException).code ?? (error as Error).message);

/** Where an old subagent's transcript belongs: the first line that names a session. */
export const sessionIn = (lines: Uint8Array): string => {
  const [, id = ""] = /"sessionId"\s*:\s*"([^"\\]+)"/.exec(Buffer.from(lines).toString("latin1")) ?? [];
  return id;
};
