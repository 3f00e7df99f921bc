import { randomUUID } from "node:crypto";
import { lstat, mkdir, readdir, readFile, rename, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import { runCommand } from "../lib/command.ts";
import { diskUsage } from "../lib/disk-usage.ts";
import { lockFile, LockTimeoutError, type FileLock } from "../lib/file-lock.ts";
import type { Log } from "../lib/log.ts";
import { removeTree } from "../lib/remove-tree.ts";
import {
  bytesOf,
  choose,
  type Entry,
  type EntryFacts,
  type EntryName,
  leaving,
  placeOf,
  refusalOf,
  type Special,
} from "./entry.ts";

/** Where the paths of a setup's cache are. Absolute. `home`: holds what is mounted into the HOME of the job. */
export type Places = { worktree: string; home: string };

/** A link, or something that no setup has made, is in the place of a cache path. */
export class InTheWay extends Error {
  override name = "InTheWay";
}

type Options = {
  /** On the file system of the worktrees. */
  root: string;
  maxBytes: number;
  log: Log;
  /** Ends copies in the background. */
  signal: AbortSignal;
};

const Facts = z.object({
  text: z.string(),
  key: z.string(),
  repoUrl: z.string(),
  paths: z.array(z.string()),
  isWhole: z.boolean(),
  bytes: z.number(),
});

/**
 * Warm environments: `{root}/{repo_key}/{text}-{key}/`, each with `facts.json`, the `tree` that jobs get a copy of, and a `spare`
 * copy, which is given by rename. What is not complete has a name that begins with a dot, and is removed at the next start.
 * A repository sees its own only.
 */
export const createEnvironments = ({ root, maxBytes, log, signal: closing }: Options) => {
  const directoryOf = (repoKey: string, { text, key }: EntryName): string =>
    join(root, repoKey, `${text}-${key}`);
  const half = (): string => join(root, `.${randomUUID()}`);
  /** Entries that are read now, by directory: they are not removed. */
  const inUse = new Map<string, number>();
  let copying: Promise<void> = Promise.resolve();

  const read = async (repoKey: string, name: string): Promise<Entry | null> => {
    const directory = join(root, repoKey, name);
    const text = await readFile(join(directory, "facts.json"), "utf8").catch(() => "null");
    const parsed = Facts.safeParse(JSON.parse(text));
    const used = await lstat(join(directory, "facts.json")).catch(() => null);
    if (!parsed.success || used === null) return null;
    const hasSpare = (await lstat(join(directory, "spare")).catch(() => null)) !== null;
    return { ...parsed.data, usedAt: used.mtimeMs, hasSpare };
  };

  const listOf = async (repoKey: string): Promise<Entry[]> => {
    const names = await readdir(join(root, repoKey)).catch(() => []);
    const found = await Promise.all(names.map((name) => read(repoKey, name)));
    return found.filter((entry) => entry !== null);
  };

  const listAll = async (): Promise<(Entry & { repoKey: string })[]> => {
    const keys = (await readdir(root).catch(() => [])).filter((name) => /^[0-9a-f]{12}$/.test(name));
    const lists = keys.map(async (repoKey) =>
      (await listOf(repoKey)).map((entry) => ({ ...entry, repoKey })),
    );
    return (await Promise.all(lists)).flat();
  };

  /** False: it is in use, or gone. */
  const remove = async (directory: string): Promise<boolean> => {
    if (inUse.has(directory)) return false;
    const gone = half();
    const isMoved = await rename(directory, gone).then(
      () => true,
      () => false,
    );
    if (isMoved) await removeTree(gone);
    return isMoved;
  };

  const using = async <Value>(directory: string, work: () => Promise<Value>): Promise<Value> => {
    inUse.set(directory, (inUse.get(directory) ?? 0) + 1);
    try {
      return await work();
    } finally {
      const left = (inUse.get(directory) ?? 1) - 1;
      if (left === 0) inUse.delete(directory);
      else inUse.set(directory, left);
    }
  };

  /** Copies the entry ahead, one after another, for the next job. */
  const makeSpare = (repoKey: string, entry: EntryFacts): void => {
    const directory = directoryOf(repoKey, entry);
    const work = async (): Promise<void> => {
      if (closing.aborted) return;
      const all = await listAll();
      const known = all.find(
        (each) => each.repoKey === repoKey && each.text === entry.text && each.key === entry.key,
      );
      const total = all.reduce((sum, each) => sum + bytesOf(each), 0);
      if (known === undefined || known.hasSpare || total + known.bytes > maxBytes) return;
      const copy = half();
      try {
        await using(directory, () =>
          copyTree(join(directory, "tree"), copy, { isNice: true, signal: closing }),
        );
        await rename(copy, join(directory, "spare"));
      } finally {
        await removeTree(copy);
      }
    };
    copying = copying.then(work).catch((err: unknown) => {
      if (!closing.aborted) log.warn({ err }, "a warm environment could not be copied ahead");
    });
  };

  return {
    /** Whether anything is kept. */
    isOn: maxBytes > 0,
    /** Removes what an earlier process has left half done. */
    start: async (): Promise<void> => {
      const left = (await readdir(root).catch(() => [])).filter((name) => name.startsWith("."));
      await Promise.all(left.map((name) => removeTree(join(root, name))));
    },
    /** Resolves when nothing is copied ahead any more. */
    idle: (): Promise<void> => copying,

    /** Of all jobs that want the same, one at a time; null: it was not its turn within the time. */
    turn: async (
      repoKey: string,
      name: EntryName,
      timeoutSeconds: number,
      signal: AbortSignal,
    ): Promise<FileLock | null> => {
      const locks = join(root, ".locks");
      await mkdir(locks, { recursive: true, mode: 0o700 });
      const path = join(locks, `${repoKey}-${name.text}-${name.key}`);
      return await lockFile({ path, timeoutSeconds, signal }).catch((error: unknown) => {
        if (error instanceof LockTimeoutError) return null;
        throw error;
      });
    },

    /** Puts what fits best in its places, at which nothing must be: see `choose`. */
    give: async (
      repoKey: string,
      name: EntryName,
      { to, signal }: { to: Places; signal: AbortSignal },
    ): Promise<"warm" | "nearest" | "cold"> => {
      const { entry, cache } = choose(await listOf(repoKey), name);
      if (entry === null) return cache;
      const directory = directoryOf(repoKey, entry);
      const copy = half();
      try {
        await using(directory, async () => {
          const isSpare = await rename(join(directory, "spare"), copy).then(
            () => true,
            () => false,
          );
          if (!isSpare) await copyTree(join(directory, "tree"), copy, { signal });
        });
        for (const path of entry.paths) {
          const place = placeOf(path);
          const target = join(to[place.in], place.path);
          await mkdir(dirname(target), { recursive: true });
          await rename(join(copy, place.in, place.path), target);
        }
        const now = new Date();
        await utimes(join(directory, "facts.json"), now, now).catch(() => undefined);
      } finally {
        await removeTree(copy);
      }
      makeSpare(repoKey, entry);
      return cache;
    },

    /**
     * Keeps what is in the places now, before anybody else writes there. Resolves to what the user should know: what was left
     * out, and why. `search` rejects when the copy must not be kept.
     * @throws InTheWay when a link is in the place of a path
     */
    keep: async (
      repoKey: string,
      facts: Omit<EntryFacts, "isWhole" | "bytes">,
      {
        from,
        search,
        signal,
      }: { from: Places; search: (copy: string) => Promise<void>; signal: AbortSignal },
    ): Promise<string[]> => {
      const copy = half();
      try {
        const { paths, leftOut } = await collect(facts.paths, { from, copy: join(copy, "tree"), signal });
        if (paths.length === 0) return leftOut;
        await search(join(copy, "tree"));
        const bytes = await diskUsage(join(copy, "tree"), { exclude: [], signal });
        if (bytes > maxBytes)
          return [
            ...leftOut,
            `The environment has ${bytes} bytes, more than SERVICE_ENV_CACHE_BYTES: it is not kept`,
          ];
        const directory = directoryOf(repoKey, facts);
        await remove(directory);
        const all = await listAll();
        for (const entry of leaving(all, { bytes, most: maxBytes }))
          await remove(directoryOf(entry.repoKey, entry));
        const kept: EntryFacts = { ...facts, paths, isWhole: leftOut.length === 0, bytes };
        await writeFile(join(copy, "facts.json"), JSON.stringify(kept), { mode: 0o600 });
        await mkdir(dirname(directory), { recursive: true, mode: 0o700 });
        await rename(copy, directory);
        makeSpare(repoKey, kept);
        return leftOut;
      } finally {
        await removeTree(copy);
      }
    },

    /** Bytes by repository. */
    usage: async (): Promise<{ repoKey: string; repoUrl: string; bytes: number }[]> =>
      (await listAll()).map((entry) => ({
        repoKey: entry.repoKey,
        repoUrl: entry.repoUrl,
        bytes: bytesOf(entry),
      })),

    /** Removes all, or those of one repository. Resolves to what is gone; what a job is given now stays. */
    clear: async (repoKey: string | null): Promise<{ removed: number; bytes: number; in_use: number }> => {
      const all = (await listAll()).filter((entry) => repoKey === null || entry.repoKey === repoKey);
      const gone = await Promise.all(all.map((entry) => remove(directoryOf(entry.repoKey, entry))));
      const removed = all.filter((_, nth) => gone[nth]);
      const bytes = removed.reduce((sum, entry) => sum + bytesOf(entry), 0);
      return { removed: removed.length, bytes, in_use: all.length - removed.length };
    },
  };
};

export type Environments = ReturnType<typeof createEnvironments>;

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

/** Copies what is at the paths into `{copy}/worktree` and `{copy}/home`, and leaves out what may not be kept. */
const collect = async (
  wanted: readonly string[],
  { from, copy, signal }: { from: Places; copy: string; signal: AbortSignal },
): Promise<{ paths: string[]; leftOut: string[] }> => {
  const paths: string[] = [];
  const leftOut: string[] = [];
  for (const path of wanted) {
    if ((await kindAt(path, from)) === null) continue;
    const place = placeOf(path);
    const target = join(copy, place.in, place.path);
    await mkdir(dirname(target), { recursive: true });
    await copyTree(join(from[place.in], place.path), target, { signal });
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
  const found = await run("grep", ["-rlF", "--", worktree, join(tree, "bin")], signal);
  const [first] = found.split("\n");
  return first ? "its programs name this worktree; make it with uv venv --relocatable" : null;
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

/** Never by hard link: what one job changes must not reach another. Links and times stay as they are. */
const copyTree = async (
  from: string,
  to: string,
  { isNice = false, signal }: { isNice?: boolean; signal: AbortSignal },
): Promise<void> => {
  const args = ["-a", "--reflink=auto", "--no-target-directory", "--", from, to];
  await (isNice ? run("nice", ["-n", "19", "cp", ...args], signal) : run("cp", args, signal));
};

const run = async (command: string, args: string[], signal: AbortSignal): Promise<string> => {
  const ended = await runCommand({
    command,
    args,
    cwd: "/",
    env: { LC_ALL: "C", PATH: "/usr/bin:/bin" },
    timeoutSeconds: 3600,
    signal,
  });
  // grep ends with 1 when it finds nothing.
  if (ended.exitCode === 0 || (command === "grep" && ended.exitCode === 1)) return ended.stdout;
  throw new Error(`${command} failed: ${ended.stderr.slice(0, 500)}`);
};
