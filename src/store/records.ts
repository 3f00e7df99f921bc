import type { z } from "zod";

/**
 * PORT. Records of one kind (jobs, completions, …): JSON texts by id, and indexes over them. Adapters: `files-records.ts` and
 * `redis-records.ts`. Each kind has one file of its own (`job-store.ts`, …).
 */

/** A place in an index, which is sorted by `at` (ms since the epoch), then id. */
export type Position = { at: number; id: string };

/** A record's entry in an index. */
export type IndexEntry = { index: string; at: number; value?: string };

export type Kind<T extends object> = {
  /** Name of a record in messages. */
  noun: string;
  /** Part of the key in the key-value store. */
  key: string;
  /** Only valid ids become paths and keys: every other id is unknown, and writing it is an error. */
  isId: (id: string) => boolean;
  /** The record, or why the text is none. */
  parse: (text: string, id: string) => T | string;
  /** Entries in indexes; those whose `at` is no number are left out. */
  entries?: (record: T) => IndexEntry[];
  /** Names that only one record may have at a time. */
  claims?: (record: T) => string[];
  /** Time from which the record is unknown, ms since the epoch; null: never. */
  expires?: (record: T) => number | null;
  /** In files: whether the record stays in memory because it changes often. */
  inMemory?: (record: T) => boolean;
  /** In files: operators may write, edit and delete them. They are not read at the start. */
  editable?: boolean;
  /** In the key-value store: a text field that has a key of its own when it is long, and seconds until that expires. */
  long?: { field: keyof T & string; key: string; seconds: (record: T) => number };
  /**
   * In the key-value store: a documented key in a slot of its own, which expires `seconds` after a write (0: never). From
   * `indexes` entries are removed that are `longest` seconds old: no record lives longer.
   */
  literal?: { seconds: (record: T) => number; indexes?: readonly string[]; longest?: number };
};

/** `full`: the limit is reached; `taken`: the claim that another record has, and its id. */
export type Creation = "created" | "full" | { taken: string; by: string };

/** Oldest first, all, or some of them. */
export type Query = {
  /** Newest first. */
  newest?: boolean;
  before?: Position | null;
  /** Up to and with this time, ms since the epoch. */
  until?: number;
  /** For entries at 0: ids that begin with this text. */
  beginning?: string;
  skip?: number;
  limit?: number;
};

/** For a new record. `ignored`: a deleted or unreadable record, whose claims do not count. */
export type CreateOptions = { limit?: { index: string; max: number }; ignored?: string };

/**
 * Every function rejects with `ServiceError("store_unavailable")` when the store cannot do it; nothing is half done then. A
 * change is durable when the function resolves.
 */
export type Records<T extends object> = {
  /** Null for an id that is unknown or malformed, and for an unreadable record (which is logged once). */
  get: (id: string) => Promise<T | null>;
  /** Stores a new record unless one of its claims is taken, or `limit.index` has `limit.max` entries. */
  create: (id: string, record: T, options?: CreateOptions) => Promise<Creation>;
  /**
   * Compare-and-set: writes what `next` makes of the current record (null: there is none). Null deletes the record,
   * undefined leaves it. After a concurrent change `next` is called again. `lazy`: durable only with the next change.
   */
  change: (
    id: string,
    next: (current: T | null) => T | null | undefined,
    options?: { lazy?: boolean },
  ) => Promise<{ after: T | null; changed: boolean }>;
  list: (index: string, query?: Query) => Promise<(Position & { value?: string })[]>;
  count: (index: string) => Promise<number>;
  /** Removes expired records, as far as the store does not do that itself; some 500 at once. */
  expire: (now: Date) => Promise<void>;
  increment: (counter: string) => Promise<void>;
  /** Counters by name: in files since this start, in a key-value store since the first start. */
  counters: (names: readonly string[]) => Promise<number[]>;
  /** Rejects when nothing can be stored at present. */
  check: () => Promise<void>;
  /** Resolves when changes in flight have ended. */
  close: () => Promise<void>;
};

/** Opens a kind of records; `directory` is for files. */
export type OpenRecords = <T extends object>(kind: Kind<T>, directory: string) => Promise<Records<T>>;

/** Most ids that one call lists or removes. */
export const maxBatch = 500;

/** Reads the text with a schema. */
export const parseWith =
  <T>(schema: z.ZodType<T>, isRight: (record: T, id: string) => boolean = () => true) =>
  (text: string, id: string): T | string => {
    try {
      const record = schema.parse(JSON.parse(text));
      if (isRight(record, id)) return record;
    } catch {
      // Torn, or somebody else's.
    }
    return "it holds no such record";
  };

/** For adapters, before they write: an invalid id could be a path to elsewhere. */
export const requireId = ({ isId, noun }: Pick<Kind<object>, "isId" | "noun">, id: string): void => {
  if (!isId(id)) throw new Error(`${JSON.stringify(id.slice(0, 100))} is no id of a ${noun}`);
};

/** The record's entries that have a time. */
export const entriesOf = <T extends object>({ entries }: Kind<T>, record: T | null): IndexEntry[] =>
  record === null ? [] : (entries?.(record) ?? []).filter(({ at }) => Number.isFinite(at));
