import { lstat, mkdir, rename } from "node:fs/promises";
import { dirname, join, relative } from "node:path";
import { runCommand } from "../lib/command.ts";
import { diskUsage } from "../lib/disk-usage.ts";
import { instanceVariable } from "../lib/process/marker.ts";
import { removeTree } from "../lib/remove-tree.ts";
import { isBinding, placeOf, refusalOf, type Special } from "./entry.ts";

/* Trees that a hostile setup may have made. Programs walk them: they follow no links, and do not block this process. */

/** Where the paths of a setup's cache are. Absolute. `home`: holds what is mounted into the HOME of the job. */
export type Places = { worktree: string; home: string };

/** A link, or something that no setup has made, is in the place of a cache path. */
export class InTheWay extends Error {
  override name = "InTheWay";
}

/** `mark`: of the service's processes. */
type Copying = { signal: AbortSignal; mark?: string | undefined };

/**
 * Removes what a setup that was interrupted has left at the paths.
 * @throws InTheWay when a link is above one: a rename would lead through it
 */
export const clearPlaces = async (paths: readonly string[], at: Places): Promise<void> => {
  for (const path of paths) {
    await kindAt(dirname(path), at);
    const place = placeOf(path);
    await removeTree(join(at[place.in], place.path));
  }
};

/** What is at the path: as `lstat` has it; null: nothing. @throws InTheWay when it, or a directory above it, is a link */
const kindAt = async (path: string, from: Places): Promise<"directory" | "file" | null> => {
  const place = placeOf(path);
  let at = from[place.in];
  let kind: "directory" | "file" | null = "directory";
  for (const part of place.path.split("/").filter((each) => each !== ".")) {
    at = join(at, part);
    const found = await lstat(at).catch(() => null);
    if (found?.isSymbolicLink() === true)
      throw new InTheWay(`${path} of cache.paths is a link, or lies behind one`);
    kind = found === null ? null : found.isDirectory() ? "directory" : "file";
    if (kind !== "directory") break;
  }
  return kind;
};

/** Bytes at the paths. @throws InTheWay when a link is in the place of one */
export const sizeOf = async (paths: readonly string[], from: Places, signal: AbortSignal) => {
  let bytes = 0;
  for (const path of paths) {
    if ((await kindAt(path, from)) === null) continue;
    const place = placeOf(path);
    bytes += await diskUsage(join(from[place.in], place.path), { exclude: [], signal });
  }
  return bytes;
};

/** Copies what is at the paths into `{copy}/worktree` and `{copy}/home`, and leaves out what may not be kept. */
export const collect = async (
  wanted: readonly string[],
  { from, copy, ...copying }: { from: Places; copy: string } & Copying,
): Promise<{ paths: string[]; leftOut: string[] }> => {
  const { signal } = copying;
  const paths: string[] = [];
  const leftOut: string[] = [];
  for (const path of wanted) {
    if ((await kindAt(path, from)) === null) continue;
    const place = placeOf(path);
    const target = join(copy, place.in, place.path);
    await mkdir(dirname(target), { recursive: true });
    await copyTree(join(from[place.in], place.path), target, copying);
    const why =
      refusalOf(await specialsIn(join(copy, place.in), place.path, signal)) ??
      (await boundTo(from.worktree, target, signal));
    if (why === null) paths.push(path);
    else {
      leftOut.push(`${path} is not kept for later jobs: ${why}`);
      await removeTree(target);
    }
  }
  return { paths, leftOut };
};

/** Why a Python environment works in one worktree only; null: it is none, or works anywhere. */
const boundTo = async (worktree: string, tree: string, signal: AbortSignal): Promise<string | null> => {
  if ((await lstat(join(tree, "pyvenv.cfg")).catch(() => null)) === null) return null;
  const found = await run("grep", ["-rlF", "--", worktree, tree], signal);
  const first = found.split("\n").find((file) => isBinding(relative(tree, file)));
  return first === undefined
    ? null
    : `${relative(tree, first)} names this worktree; make it with uv venv --relocatable, and keep the cache of packages (~/.cache/uv, ~/.cache/pip)`;
};

const specialsIn = async (top: string, path: string, signal: AbortSignal): Promise<Special[]> => {
  const what =
    "( -type l -printf l%P\\0%l\\0 ) -o ( ! -type f ! -type d -printf %y%P\\0\\0 ) -o ( -type f -perm /6000 -printf s%P\\0\\0 )";
  const found = await run("find", [join(top, path), ...what.split(" ")], signal);
  const fields = found.split("\0");
  const specials: Special[] = [];
  for (let nth = 0; nth + 1 < fields.length; nth += 2) {
    const [named = "", target = ""] = [fields[nth], fields[nth + 1]];
    specials.push({ kind: named.slice(0, 1), path: join(path, named.slice(1)), target });
  }
  return specials;
};

/** Never by hard link: what one job changes must not reach another. Links, modes and times stay, owners do not. */
export const copyTree = async (
  from: string,
  to: string,
  { isNice = false, mark, signal }: Copying & { isNice?: boolean },
): Promise<void> => {
  const args = ["-dRT", "--preserve=mode,timestamps,links", "--reflink=auto", "--", from, to];
  await (isNice ? run("nice", ["-n", "19", "cp", ...args], signal, mark) : run("cp", args, signal, mark));
};

/** By rename; across file systems it is copied. */
export const moveTree = async (from: string, to: string, copying: Copying): Promise<void> => {
  try {
    await rename(from, to);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    await copyTree(from, to, copying);
  }
};

const run = async (command: string, args: string[], signal: AbortSignal, mark?: string): Promise<string> => {
  const ended = await runCommand({
    command,
    args,
    cwd: "/",
    env: { LC_ALL: "C", PATH: "/usr/bin:/bin", ...(mark !== undefined && { [instanceVariable]: mark }) },
    timeoutSeconds: 3600,
    signal,
  });
  // grep ends with 1 when it finds nothing.
  if (ended.exitCode === 0 || (command === "grep" && ended.exitCode === 1)) return ended.stdout;
  throw new Error(`${command} failed: ${ended.stderr.slice(0, 500)}`);
};
