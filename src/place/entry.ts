import { createHash } from "node:crypto";
import { posix } from "node:path";
import type { Setup } from "./plan.ts";
import { withoutPorts } from "./ports.ts";

/**
 * A kept environment: what a setup left in its cache paths.
 *
 * `text` says by what it was made (commands, paths, variables, programs, branch), `key` of which lock files: it fits exactly
 * where both are the same, and nearly where `text` is. Both are 16 hex digits.
 */
export type EntryName = {
  text: string;
  key: string;
  /** The text of an entry of the default branch, on which no agent decides: it fits all. Absent: none does. */
  usual?: string;
};

/** The facts stored beside an entry. */
export type EntryFacts = Omit<EntryName, "usual"> & {
  repoUrl: string;
  /** As the setup names them: those that are in it. */
  paths: string[];
  /** Nothing was left out: `run` need not be run where it fits. */
  isWhole: boolean;
  bytes: number;
};

export type Entry = EntryFacts & {
  /** Last use, ms since the epoch. */
  usedAt: number;
  hasSpare: boolean;
};

/**
 * `programs`: what says which programs it was made with. `locks`: the content of each lock file; null: it is missing. `reach`: what
 * its commands may use: what one profile lets them read gets to no job of another. `branch`: of the base; empty: the default one.
 */
export const nameOf = (
  { run, env, cache }: Pick<Setup, "run" | "env" | "cache">,
  facts: { repoUrl: string; programs: string; locks: (string | null)[]; reach: unknown; branch: string },
): EntryName => {
  const { repoUrl, programs, locks, reach, branch } = facts;
  const textOf = (base: string): string =>
    digest([repoUrl, run, withoutPorts(env), cache, programs, reach, base]);
  return { text: textOf(branch), usual: textOf(""), key: digest(locks) };
};

const digest = (value: unknown): string =>
  createHash("sha256").update(JSON.stringify(value)).digest("hex").slice(0, 16);

/**
 * What a job gets of the entries of its branch and of the default branch.
 *
 * | there is one with               | it gets                         | `run`      | `cache`   |
 * |---------------------------------|---------------------------------|------------|-----------|
 * | the same text and key, whole    | that                            | is skipped | `warm`    |
 * | the same text and key, not whole| that                            | is run     | `nearest` |
 * | the same text                   | of these the last that was used | is run     | `nearest` |
 * | none of these                   | nothing                         | is run     | `cold`    |
 */
export const choose = (
  entries: readonly Entry[],
  { text, usual, key }: EntryName,
): { entry: Entry | null; cache: "warm" | "nearest" | "cold" } => {
  const near = entries.filter((entry) => [text, usual].includes(entry.text));
  const fitting = near.filter((entry) => entry.key === key);
  const same = fitting.find(({ isWhole }) => isWhole) ?? fitting[0];
  const entry = same ?? near.toSorted((a, b) => b.usedAt - a.usedAt)[0] ?? null;
  return { entry, cache: entry === null ? "cold" : same?.isWhole === true ? "warm" : "nearest" };
};

/** Whether `..` is behind a name: that may be a link itself, and then leads elsewhere than the text says. */
const climbsLate = (target: string): boolean => {
  const parts = target.split("/").filter((part) => part !== "" && part !== ".");
  const first = parts.findIndex((part) => part !== "..");
  return first !== -1 && parts.includes("..", first);
};

/** Whether a file of a Python environment, with the worktree's path in it, works there only. */
export const isBinding = (file: string): boolean =>
  /^(pyvenv\.cfg$|bin\/)|\.(pth|egg-link)$|(^|\/)__editable__/.test(file);

/** Bytes on disk, with its spare copy. */
export const bytesOf = ({ bytes, hasSpare }: Pick<Entry, "bytes" | "hasSpare">): number =>
  hasSpare ? 2 * bytes : bytes;

/** Which entries have to go, least recently used first, so that `bytes` more fit into `most`. */
export const leaving = <Known extends Pick<Entry, "bytes" | "hasSpare" | "usedAt">>(
  entries: readonly Known[],
  { bytes, most }: { bytes: number; most: number },
): Known[] => {
  let total = bytes + entries.reduce((sum, entry) => sum + bytesOf(entry), 0);
  return entries
    .toSorted((a, b) => a.usedAt - b.usedAt)
    .filter((entry) => {
      const goes = total > most;
      if (goes) total -= bytesOf(entry);
      return goes;
    });
};

/** Where a path of a setup's cache is, and below what. */
export const placeOf = (path: string): { in: "home" | "worktree"; path: string } =>
  path.startsWith("~/") ? { in: "home", path: path.slice(2) } : { in: "worktree", path };

/** Something of a copied tree. `kind`: as `find` has it (`l` link), `s`: a file that runs with the rights of its owner. */
export type Special = { kind: string; path: string; target: string };

/** Paths that every sandbox sees read-only. */
const everywhere = /^\/(usr|bin|sbin|lib|lib32|lib64|libx32)(\/|$)/;

/**
 * Why a tree that a setup made is not kept; null: it may be. `path`s begin with that of the cache.
 *
 * | it has                                                       | kept |
 * |--------------------------------------------------------------|------|
 * | files and directories                                        | yes  |
 * | a link that leads to a place in the worktree, or in the HOME | yes  |
 * | a link to what every sandbox sees read-only                  | yes  |
 * | any other link, also one with `..` behind a name             | no   |
 * | a file that runs with the rights of its owner or group       | no   |
 * | a device, a pipe, a socket                                   | no   |
 */
export const refusalOf = (specials: readonly Special[]): string | null => {
  for (const { kind, path, target } of specials) {
    if (kind === "s") return `${path} runs with the rights of its owner`;
    if (kind !== "l") return `${path} is no file, directory or link`;
    const to = posix.normalize(posix.join(posix.dirname(path), target));
    const leadsOut = target.startsWith("/") ? !everywhere.test(target) : /^(\.\.|\.git)(\/|$)/.test(to);
    if (leadsOut || climbsLate(target)) return `${path} is a link to ${target}`;
  }
  return null;
};
