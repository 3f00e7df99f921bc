import { randomUUID } from "node:crypto";
import { lstat, mkdir, readdir, readFile, rename, utimes, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { EnvironmentUsage } from "../contract/environment.ts";
import { diskUsage } from "../lib/disk-usage.ts";
import { lockFile, LockTimeoutError } from "../lib/file-lock.ts";
import type { Log } from "../lib/log.ts";
import { removeTree } from "../lib/remove-tree.ts";
import { bytesOf, choose, type Entry, type EntryFacts, type EntryName, leaving, placeOf } from "./entry.ts";
import { collect, copyTree, moveTree, type Places, sizeOf } from "./trees.ts";

/** The part of a setup that is not kept, as a sentence for the user. */
const notKept = (why: string): string => `What the setup made is not kept for later jobs: ${why}`;

type Options = {
  /** On the file system of the worktrees. */
  root: string;
  maxBytes: number;
  /** Rejects when fewer bytes are free. */
  requireRoom: (bytes: number) => Promise<void>;
  /** Marks the service's processes: by it the next start ends copies that outlive a kill. */
  mark?: string | undefined;
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
 * Warm environments: `{root}/{repo_key}/{text}-{key}/`, each with `facts.json`, the `tree` that jobs get a copy of, and a
 * `spare` copy, given by rename. What begins with a dot is not complete. A repository sees its own only.
 */
export const createEnvironments = ({ root, maxBytes, requireRoom, mark, log, signal: closing }: Options) => {
  const directoryOf = (repoKey: string, { text, key }: EntryName): string =>
    join(root, repoKey, `${text}-${key}`);
  const half = (): string => join(root, `.${randomUUID()}`);
  /** Entries that are read now, by directory: they are not removed. */
  const inUse = new Map<string, number>();
  let copying: Promise<void> = Promise.resolve();

  const read = async (repoKey: string, name: string): Promise<Entry | null> => {
    const directory = join(root, repoKey, name);
    const file = join(directory, "facts.json");
    const parsed = await readFile(file, "utf8")
      .then((text) => Facts.safeParse(JSON.parse(text)))
      .catch(() => null);
    const used = await lstat(file).catch(() => null);
    if (parsed?.success !== true || used === null) return null;
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

  /** Removes what was used least recently until so many bytes have room. False: what is left is in use. */
  const makeRoom = async (bytes: number): Promise<boolean> => {
    const all = await listAll();
    const free = all.filter((entry) => !inUse.has(directoryOf(entry.repoKey, entry)));
    const held = all.filter((entry) => !free.includes(entry));
    const most = maxBytes - held.reduce((sum, entry) => sum + bytesOf(entry), 0);
    for (const entry of leaving(free, { bytes, most })) await remove(directoryOf(entry.repoKey, entry));
    return bytes <= most;
  };

  /** Copies the entry ahead, one after another, for the next job. */
  const makeSpare = (repoKey: string, entry: EntryFacts): void => {
    const directory = directoryOf(repoKey, entry);
    const work = async (): Promise<void> => {
      if (closing.aborted) return;
      const all = await listAll();
      const known = all.find((each) => directoryOf(each.repoKey, each) === directory);
      const total = all.reduce((sum, each) => sum + bytesOf(each), 0);
      if (known === undefined || known.hasSpare || total + known.bytes > maxBytes) return;
      const copy = half();
      try {
        await using(directory, async () => {
          await requireRoom(known.bytes);
          await copyTree(join(directory, "tree"), copy, { isNice: true, signal: closing, mark });
          await rename(copy, join(directory, "spare"));
        });
      } finally {
        await removeTree(copy);
      }
    };
    copying = copying.then(work).catch((err: unknown) => {
      if (!closing.aborted) log.warn({ err }, "a warm environment could not be copied ahead");
    });
  };

  return {
    isOn: maxBytes > 0,
    /** Removes what an earlier process has left half done, and what is over the bound. */
    start: async (): Promise<void> => {
      const left = (await readdir(root).catch(() => [])).filter((name) => name.startsWith("."));
      await Promise.all(left.map((name) => removeTree(join(root, name))));
      await makeRoom(0);
    },
    /** Resolves when nothing is copied ahead any more. */
    idle: (): Promise<void> => copying,

    /** Whether `run` need not be run. */
    isWhole: async (repoKey: string, name: EntryName): Promise<boolean> =>
      choose(await listOf(repoKey), name).cache === "warm",

    /** Locks an entry, so that one job at a time builds it; null: it was not its turn within the time. */
    turn: async (repoKey: string, name: EntryName, timeoutSeconds: number, signal: AbortSignal) => {
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
          if (isSpare) return;
          await requireRoom(entry.bytes);
          await copyTree(join(directory, "tree"), copy, { signal, mark });
        });
        for (const path of entry.paths) {
          const place = placeOf(path);
          const target = join(to[place.in], place.path);
          await mkdir(dirname(target), { recursive: true });
          await moveTree(join(copy, place.in, place.path), target, { signal, mark });
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
     * Keeps what is in the places now, before anybody else writes there, unless it is kept already. Resolves to what the user
     * should know: what was left out, and why. `search` rejects when the copy must not be kept.
     * @throws InTheWay when a link is in the place of a path
     */
    keep: async (
      repoKey: string,
      facts: EntryName & { repoUrl: string; paths: readonly string[] },
      request: { from: Places; search: (copy: string) => Promise<void>; signal: AbortSignal },
    ): Promise<string[]> => {
      const { from, search, signal } = request;
      if ((await read(repoKey, `${facts.text}-${facts.key}`)) !== null) return [];
      const size = await sizeOf(facts.paths, from, signal);
      if (size > maxBytes) return [notKept(`it has ${size} bytes, more than SERVICE_ENV_CACHE_BYTES`)];
      if (!(await makeRoom(size))) return [notKept("all that is kept is being given to jobs")];
      const copy = half();
      try {
        await requireRoom(size);
        const tree = join(copy, "tree");
        const { paths, leftOut } = await collect(facts.paths, { from, copy: tree, signal, mark });
        if (paths.length === 0) return leftOut;
        await search(tree);
        const bytes = await diskUsage(tree, { exclude: [], signal });
        const directory = directoryOf(repoKey, facts);
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

    /** By repository, largest first. */
    usage: async (): Promise<EnvironmentUsage[]> =>
      [...Map.groupBy(await listAll(), ({ repoUrl }) => repoUrl)]
        .map(([repo_url, own]) => ({
          repo_url,
          entries: own.length,
          bytes: own.reduce((sum, entry) => sum + bytesOf(entry), 0),
          used_at: new Date(Math.max(...own.map(({ usedAt }) => usedAt))).toISOString(),
        }))
        .toSorted((a, b) => b.bytes - a.bytes),

    /** Removes those of some repositories. Resolves to what is gone; what a job is given now stays. */
    clear: async (isWanted: (repoUrl: string) => boolean) => {
      const all = (await listAll()).filter(({ repoUrl }) => isWanted(repoUrl));
      const gone = await Promise.all(all.map((entry) => remove(directoryOf(entry.repoKey, entry))));
      const removed = all.filter((_, nth) => gone[nth]);
      const bytes = removed.reduce((sum, entry) => sum + bytesOf(entry), 0);
      return { removed: removed.length, bytes, in_use: all.length - removed.length };
    },
  };
};

export type Environments = ReturnType<typeof createEnvironments>;
