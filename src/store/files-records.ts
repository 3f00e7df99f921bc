import { readFileSync } from "node:fs";
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate as breathe } from "node:timers/promises";
import { ServiceError } from "../contract/errors.ts";
import { syncDirectory, temporarySuffix, writeFileAtomic } from "../lib/atomic-file.ts";
import type { Log } from "../lib/log.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import { createWarnOnce } from "../lib/warn-once.ts";
import { nonBlocking } from "../lib/non-blocking.ts";
import { createMemoryIndex } from "./memory-index.ts";
import { atOnce, type Claim, type Index, type IndexEntry, type Kind, type Records } from "./records.ts";

type Options = { directory: string; now: () => Date; log: Log };

/** What is kept in memory of every record. */
type Known = { entries: IndexEntry[]; expires: number };

/**
 * One JSON file per record, `{id}.json`, replaced atomically; indexes in memory. One server per directory: whoever opens it
 * holds the directory's lock.
 */
export const openFilesRecords = async <T extends object>(
  kind: Kind<T>,
  { directory, now, log }: Options,
): Promise<Records<T>> => {
  const known = new Map<string, Known>();
  const whole = new Map<string, T>();
  const index = createMemoryIndex();
  const claims = new Map<string, { id: string; written: Promise<unknown> }>();
  /** Records that are being written for the first time. */
  const arriving = new Set<string>();
  const counted = new Map<string, number>();
  const warnings = createWarnOnce();
  const { runExclusive: inTurn, idle: settled } = createKeyedMutex();
  const { inMemory, editable = false } = kind.files;
  const file = (id: string): string => join(directory, `${fileNameOf(id)}.json`);

  const guarded = async <Value>(work: () => Promise<Value>): Promise<Value> => {
    try {
      return await work();
    } catch (cause) {
      throw storeUnavailable(directory, cause);
    }
  };

  const remember = (id: string, record: T): void => {
    arriving.delete(id);
    if (inMemory?.(record) === true) whole.set(id, record);
    else whole.delete(id);
    if (editable) return;
    const entries = kind.entries(record, id);
    index.replace(id, known.get(id)?.entries ?? [], entries);
    known.set(id, { entries, expires: kind.expires?.(record) ?? Infinity });
  };

  const forget = (id: string): void => {
    index.replace(id, known.get(id)?.entries ?? [], []);
    known.delete(id);
    whole.delete(id);
  };

  const claim = (id: string, wanted: readonly Claim[], written: Promise<unknown>): void => {
    for (const each of wanted) claims.set(keyOf(each), { id, written });
  };

  const unclaim = (id: string, record: T): void => {
    for (const key of (kind.claims?.(record) ?? []).map(keyOf))
      if (claims.get(key)?.id === id) claims.delete(key);
  };

  /** One file that somebody spoilt must not spoil the lists that its record is in. */
  const skip = (id: string, why: string): null => {
    const path = file(id);
    warnings.once(path, () => log.warn({ file: path }, `${kind.noun} file skipped: ${why}`));
    return null;
  };

  const read = async (id: string): Promise<T | null> => {
    const held = whole.get(id);
    if (held !== undefined) return held;
    const before = known.get(id);
    if (!kind.isId(id) || (before === undefined && !editable)) return null;
    const record = await guarded(() => readRecord(id));
    if (record === null && known.get(id) === before) forget(id);
    return record;
  };

  const readRecord = async (id: string): Promise<T | null> => {
    try {
      const text = await readFile(file(id), { encoding: "utf8", flag: nonBlocking.read });
      const record = kind.parse(text, id);
      if (typeof record === "string") return skip(id, record);
      warnings.isWell(file(id));
      return record;
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code === "EISDIR") return skip(id, "it is a directory");
      if (code !== "ENOENT") throw error;
      if (editable || !known.has(id)) return null;
      // That it alone is gone, and not the directory.
      await readdir(directory);
      return skip(id, "it is gone");
    }
  };

  const write = async (id: string, record: T): Promise<void> => {
    await guarded(async () => {
      if (editable) await mkdir(directory, { recursive: true, mode: 0o700 });
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

  const isOver = (id: string, at: Date): boolean => (known.get(id)?.expires ?? Infinity) <= at.getTime();

  /** Synchronous reads in slices: four times as fast as asynchronous ones. */
  const load = async (): Promise<void> => {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const loaded: { id: string; record: T; at: number }[] = [];
    for (const [count, name] of (await readdir(directory)).entries()) {
      if (count % 500 === 499) await breathe();
      if (name.endsWith(temporarySuffix)) await rm(join(directory, name), { force: true });
      if (!name.endsWith(".json")) continue;
      const id = idOf(name.slice(0, -".json".length));
      const record = kind.isId(id) ? loadRecord(id) : `its name is no id of a ${kind.noun}`;
      if (typeof record === "string") skip(id, record);
      else loaded.push({ id, record, at: kind.entries(record, id)[0]?.at ?? 0 });
    }
    // In order, so that each is added at the end of most indexes.
    for (const { id, record } of loaded.toSorted((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1))) {
      remember(id, record);
      claim(id, kind.claims?.(record) ?? [], Promise.resolve());
    }
  };

  const loadRecord = (id: string): T | string => {
    try {
      return kind.parse(readFileSync(file(id), { encoding: "utf8", flag: nonBlocking.read }), id);
    } catch (error) {
      return `it cannot be read (${error instanceof Error ? error.message : String(error)})`;
    }
  };

  const takenOf = (wanted: readonly Claim[], ignored?: string): Claim | undefined =>
    wanted.find((each) => (claims.get(keyOf(each))?.id ?? ignored) !== ignored);

  /** Those being written count. */
  const isFull = ({ index: { name }, most }: { index: Index; most: number }): boolean =>
    index.list(name).length + arriving.size >= most;

  if (!editable) await load();

  return {
    get: async (id) => (isOver(id, now()) ? null : await read(id)),

    create: async (id, record, { limit, ignored } = {}) => {
      const wanted = kind.claims?.(record) ?? [];
      const known = wanted.filter(({ holder }) => holder);
      for (let taken = takenOf(known, ignored); taken !== undefined; taken = takenOf(known, ignored)) {
        const held = claims.get(keyOf(taken));
        await held?.written.catch(() => undefined);
        // One that could not be written has no claim any more.
        if (held !== undefined && claims.get(keyOf(taken)) === held) return { takenBy: held.id };
      }
      // From here on nothing is awaited until the claims are made.
      if (limit !== undefined && isFull(limit)) return "full";
      if (takenOf(wanted.filter(({ holder }) => !holder)) !== undefined) return { takenBy: null };
      arriving.add(id);
      const written = inTurn(id, () => write(id, record));
      claim(id, wanted, written);
      try {
        await written;
        return "created";
      } catch (error) {
        arriving.delete(id);
        unclaim(id, record);
        throw error;
      }
    },

    change: (id, next, { lazy = false } = {}) =>
      inTurn(id, async () => {
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

    all: async () => {
      const records = await Promise.all([...known.keys()].map(read));
      return records.filter((record) => record !== null);
    },

    newest: async ({ name }, { limit, before = null, skip: left = 0 }) => {
      const end = before === null ? index.list(name).length : index.placeOf(name, before);
      const part = index.list(name).slice(Math.max(0, end - left - limit), Math.max(0, end - left));
      return part.map(({ at, id }) => ({ created: at, id })).toReversed();
    },
    oldest: async ({ name }, { limit = Infinity, skip: left = 0, and } = {}) => {
      const others = and === undefined ? null : new Set(index.list(and.name).map(({ id }) => id));
      const ids = index.list(name).map(({ id }) => id);
      return (others === null ? ids : ids.filter((id) => others.has(id))).slice(left, left + limit);
    },
    due: async ({ name }, until) =>
      index
        .list(name)
        .slice(0, index.placeOf(name, { created: until + 1, id: "" }))
        .slice(0, atOnce)
        .map(({ id }) => id),
    values: async ({ name }) => index.list(name).map(({ id, value }) => [id, value]),
    count: async ({ name }) => index.list(name).length,

    expire: async (at) => {
      const over = [...known.keys()].filter((id) => isOver(id, at)).slice(0, atOnce);
      for (const id of over) {
        await inTurn(id, async () => {
          const record = isOver(id, at) ? await read(id) : null;
          if (record !== null) await remove(id, record);
        });
      }
    },

    increment: async (counter) => void counted.set(counter, (counted.get(counter) ?? 0) + 1),
    counters: async (names) => names.map((name) => counted.get(name) ?? 0),

    check: () =>
      guarded(async () => {
        const probe = join(directory, ".probe");
        await writeFileAtomic(probe, probeData);
        await rm(probe, { force: true });
      }),
    close: settled,
  };
};

/** As much as a record takes: on a full disk an empty file can still be made. */
const probeData = "-".repeat(65_536);

const keyOf = ({ name, value }: Claim): string => `${name}\n${value}`;

/**
 * A colon is no character for a file name, and a dot in front hides a file or means a directory. Ids have neither `+` nor
 * `=`, so no two of them share a name; nothing gets longer, since names of files are bounded.
 */
const fileNameOf = (id: string): string => id.replaceAll(":", "+").replace(/^\./, "=");
const idOf = (name: string): string => name.replaceAll("+", ":").replace(/^=/, ".");

/** What every function of a file store rejects with when the directory cannot be used. */
const storeUnavailable = (directory: string, cause: unknown): ServiceError => {
  const code = (cause as NodeJS.ErrnoException).code ?? String(cause);
  return new ServiceError(
    "store_unavailable",
    `The job store in ${directory} cannot be used (${code}): check free space and permissions there, then try again`,
    { cause, retryAfter: 5 },
  );
};
