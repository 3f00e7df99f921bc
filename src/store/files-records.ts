import { readFileSync } from "node:fs";
import { access, mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as yieldToEvents } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import { syncDirectory, temporarySuffix, writeFileAtomic } from "../lib/atomic-file.ts";
import type { Log } from "../lib/log.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import {
  entriesOf,
  maxBatch,
  requireId,
  type Creation,
  type IndexEntry,
  type Kind,
  type Position,
  type Query,
  type Records,
} from "./records.ts";

type Options = { directory: string; now: () => Date; log: Log };

/**
 * One JSON file per record, `{id}.json`, replaced atomically; indexes in memory. The caller has the directory's lock, so
 * that one server uses it.
 */
export const openFilesRecords = async <T extends object>(
  kind: Kind<T>,
  { directory, now, log }: Options,
): Promise<Records<T>> => {
  const known = new Map<string, { entries: IndexEntry[]; expires: number }>();
  const cache = new Map<string, T>();
  const index = createMemoryIndex();
  /** Ids by claim, and those of records that are being created, which count for limits before they are indexed. */
  const claims = new Map<string, string>();
  const creating = new Set<string>();
  const counters = new Map<string, number>();
  const warnings = createWarnOnce();
  const { runExclusive, idle } = createKeyedMutex();
  const file = (id: string): string => join(directory, `${fileNameOf(id)}.json`);

  const guarded = async <Value>(work: () => Promise<Value>): Promise<Value> => {
    try {
      return await work();
    } catch (cause) {
      throw storeUnavailable(directory, cause);
    }
  };

  const remember = (id: string, record: T): void => {
    creating.delete(id);
    if (kind.inMemory?.(record) === true) cache.set(id, record);
    else cache.delete(id);
    const entries = entriesOf(kind, record);
    index.replace(id, known.get(id)?.entries ?? [], entries);
    known.set(id, { entries, expires: kind.expires?.(record) ?? Infinity });
  };

  const forget = (id: string): void => {
    index.replace(id, known.get(id)?.entries ?? [], []);
    known.delete(id);
    cache.delete(id);
  };

  const claimsOf = (record: T): readonly string[] => kind.claims?.(record) ?? [];
  const claim = (id: string, record: T): void => claimsOf(record).forEach((name) => claims.set(name, id));
  const unclaim = (id: string, record: T): void =>
    claimsOf(record).forEach((name) => claims.get(name) === id && claims.delete(name));

  /** One damaged file must not break the lists that its record is in. */
  const skip = (id: string, why: string): null => {
    const path = file(id);
    warnings.once(path, () => log.warn({ file: path }, `${kind.noun} file skipped: ${why}`));
    return null;
  };

  const read = async (id: string): Promise<T | null> => {
    const cached = cache.get(id);
    if (cached !== undefined || !kind.isId(id)) return cached ?? null;
    const before = known.get(id);
    if (before === undefined && kind.editable !== true) return null;
    const record = await guarded(() => readRecord(id));
    if (record === null && known.get(id) === before) forget(id);
    return record;
  };

  const readRecord = async (id: string): Promise<T | null> => {
    try {
      const record = kind.parse(await readFile(file(id), { encoding: "utf8", flag: nonBlocking.read }), id);
      if (typeof record === "string") return skip(id, record);
      warnings.clear(file(id));
      return record;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EISDIR") return skip(id, "it is a directory");
      if (code !== "ENOENT") throw error;
      if (kind.editable === true || !known.has(id)) return null;
      // Throws when the whole directory is missing.
      await access(directory);
      return skip(id, "it is missing");
    }
  };

  const write = async (id: string, record: T): Promise<void> => {
    requireId(kind, id);
    await guarded(async () => {
      if (kind.editable === true) await mkdir(directory, { recursive: true, mode: 0o700 });
      await writeFileAtomic(file(id), JSON.stringify(record));
    });
    remember(id, record);
  };

  const remove = async (id: string, record: T): Promise<void> => {
    await guarded(async () => {
      await rm(file(id), { force: true });
      await syncDirectory(directory);
    });
    unclaim(id, record);
    forget(id);
  };

  const isExpired = (id: string, at: Date): boolean => (known.get(id)?.expires ?? Infinity) <= at.getTime();

  /** Synchronous reads in slices: four times as fast as asynchronous ones. */
  const load = async (): Promise<void> => {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const loaded: { id: string; record: T; at: number }[] = [];
    for (const [count, name] of (await readdir(directory)).entries()) {
      if (count % 500 === 499) await yieldToEvents();
      if (name.endsWith(temporarySuffix)) await rm(join(directory, name), { force: true });
      if (!name.endsWith(".json")) continue;
      const id = idOf(name.slice(0, -".json".length));
      const record = kind.isId(id) ? loadRecord(id) : `its name is no id of a ${kind.noun}`;
      if (typeof record === "string") skip(id, record);
      else loaded.push({ id, record, at: entriesOf(kind, record)[0]?.at ?? 0 });
    }
    // Oldest first, so that most entries are added at the end of their index.
    for (const { id, record } of loaded.toSorted((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1))) {
      remember(id, record);
      claim(id, record);
    }
  };

  const loadRecord = (id: string): T | string => {
    try {
      return kind.parse(readFileSync(file(id), { encoding: "utf8", flag: nonBlocking.read }), id);
    } catch (error) {
      return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
    }
  };

  const findTaken = (record: T, ignored?: string): string | undefined =>
    claimsOf(record).find((name) => claims.has(name) && claims.get(name) !== ignored);

  if (kind.editable !== true) await load();
  return {
    get: async (id) => (isExpired(id, now()) ? null : await read(id)),

    create: async (id, record, { limit, ignored } = {}): Promise<Creation> => {
      for (let taken; (taken = findTaken(record, ignored)) !== undefined;) {
        const by = claims.get(taken) ?? "";
        // A record that could not be written loses its claim.
        await runExclusive(by, async () => undefined);
        if (claims.get(taken) === by) return { taken, by };
      }
      // No await from here until the claims are made.
      if (limit !== undefined && index.list(limit.index).length + creating.size >= limit.max) return "full";
      creating.add(id);
      claim(id, record);
      return await runExclusive(id, async (): Promise<Creation> => {
        try {
          await write(id, record);
          return "created";
        } catch (error) {
          creating.delete(id);
          unclaim(id, record);
          throw error;
        }
      });
    },

    change: (id, next, { lazy = false } = {}) =>
      runExclusive(id, async () => {
        const before = await read(id);
        const after = next(before);
        if (after === undefined || (after === null && before === null))
          return { after: before, changed: false };
        if (after === null) {
          if (before !== null) await remove(id, before);
        } else if (lazy) remember(id, after);
        else await write(id, after);
        return { after, changed: true };
      }),

    list: async (name, query = {}) => pageOf(index.list(name), query),
    count: async (name) => index.list(name).length,

    expire: async (at) => {
      for (const id of [...known.keys()].filter((id) => isExpired(id, at)).slice(0, maxBatch)) {
        await runExclusive(id, async () => {
          const record = isExpired(id, at) ? await read(id) : null;
          if (record !== null) await remove(id, record);
        });
      }
    },

    increment: async (counter) => void counters.set(counter, (counters.get(counter) ?? 0) + 1),
    counters: async (names) => names.map((name) => counters.get(name) ?? 0),

    check: () =>
      guarded(async () => {
        // As large as a record: on a full disk an empty file can still be made.
        await writeFileAtomic(join(directory, ".probe"), "-".repeat(65_536));
        await rm(join(directory, ".probe"), { force: true });
      }),
    close: idle,
  };
};

/**
 * File names may not contain a colon, and a leading dot hides a file or names a directory. Ids contain neither `+` nor `=`,
 * so no two of them share a name; no name gets longer, since file names are bounded.
 */
const fileNameOf = (id: string): string => id.replaceAll(":", "+").replace(/^\./, "=");
const idOf = (name: string): string => name.replaceAll("+", ":").replace(/^=/, ".");

const storeUnavailable = (directory: string, cause: unknown): ServiceError => {
  const code = (cause as NodeJS.ErrnoException).code ?? String(cause);
  return new ServiceError(
    "store_unavailable",
    `The job store in ${directory} cannot be used (${code}): check free space and permissions there, then try again`,
    { cause, retryAfter: 5 },
  );
};

type Entry = Position & { value?: string };

/** Indexes by name, each a list sorted by time, then id. */
const createMemoryIndex = () => {
  const lists = new Map<string, Entry[]>();
  const list = (name: string) => lists.get(name) ?? [];
  return {
    list,
    replace: (id: string, before: readonly IndexEntry[], after: readonly IndexEntry[]): void => {
      for (const { index, at } of before) {
        const entries = list(index);
        const position = countBefore(entries, { at, id });
        if (entries[position]?.id === id) entries.splice(position, 1);
        if (entries.length === 0) lists.delete(index);
      }
      for (const { index, ...entry } of after) {
        const entries = list(index);
        entries.splice(countBefore(entries, { at: entry.at, id }), 0, { id, ...entry });
        lists.set(index, entries);
      }
    },
  };
};

/** The part of a sorted list that was asked for. */
const pageOf = (entries: readonly Entry[], query: Query): Entry[] => {
  const { newest = false, before, until, beginning, skip = 0, limit = Infinity } = query;
  const begin = beginning === undefined ? 0 : countBefore(entries, { at: 0, id: beginning });
  const last = until === undefined ? null : { at: until + 1, id: "" };
  const limits = before ?? last ?? (beginning === undefined ? null : { at: 0, id: `${beginning}~` });
  const end = limits === null ? entries.length : countBefore(entries, limits);
  const part = entries.slice(begin, end);
  return (newest ? part.toReversed() : part).slice(skip, skip + limit);
};

/** How many elements of a sorted list are before `key`: a binary search. */
const countBefore = (list: readonly Position[], key: Position): number => {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    const { at, id } = list[middle] as Position;
    if (at < key.at || (at === key.at && id < key.id)) low = middle + 1;
    else high = middle;
  }
  return low;
};
