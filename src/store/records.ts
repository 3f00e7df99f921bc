/**
 * Records of one kind (jobs, completions, …): JSON texts by id, and indexes over them. Adapters: `files-records.ts` and
 * `redis-records.ts`. Each kind has one file of its own (`job-store.ts`, …).
 */

/** How an index orders its entries: by creation of the record, by a time, or not at all (each entry has a value). */
type Order = "creation" | "time" | "none";

/** `name` is the last part of the index's key in the key-value store. */
export type Index = { name: string; order: Order };

/** A record's entry in an index; `at` in ms since the epoch. */
export type IndexEntry = { index: Index; at: number; value?: readonly unknown[] };

/** A value that only one record may have at a time. `holder`: `create` answers with the id of that record. */
export type Claim = { name: string; value: string; holder: boolean };

export type Position = { created: number; id: string };

export type Kind<T extends object> = {
  /** Name of a record in messages. */
  noun: string;
  /** Only valid ids become paths and keys: every other id is unknown, and writing it is an error. */
  isId: (id: string) => boolean;
  /** The record, or why the text is none. */
  parse: (text: string, id: string) => T | string;
  /** Entries in indexes; those whose `at` is no number are left out. */
  entries: (record: T, id: string) => IndexEntry[];
  claims?: (record: T) => Claim[];
  /** Time from which the record is unknown, ms since the epoch; null: never. */
  expires?: (record: T) => number | null;
  files: {
    /** Whether the record stays in memory because it changes often; all others are read from their file. */
    inMemory?: (record: T) => boolean;
    /** Operators may write, edit and delete the files: each is read every time, and none is indexed. */
    editable?: boolean;
  };
  redis: {
    /** A string per record, a hash per record with its version, or one hash of all records. */
    layout: "string" | "hash" | "table";
    /** Parts of the key; the key of a table does not depend on the id. */
    key: (id: string) => string[];
    /** Field of the hash that holds the version. */
    version?: string;
    /** Records and indexes are in one slot of a Cluster: one script changes them together. */
    oneSlot: boolean;
    /** Seconds until the record expires; 0: never. */
    seconds?: (record: T) => number;
    /** A text field that has a key of its own when it is long: first part of that key, seconds until it expires. */
    apart?: { field: keyof T & string; key: string; seconds: (record: T) => number };
    /** Records are also found by the beginning of their id. */
    ids?: true;
    swept?: Swept;
  };
};

/**
 * For records in slots of their own: indexes by time from which `expire` removes entries without a record. The first has all
 * records; none expires within so many seconds of its time.
 */
export type Swept = { indexes: [Index, ...Index[]]; seconds: number };

type Change<T> = { after: T | null; changed: boolean };

/** `full`: the limit is reached; `takenBy`: the record that has one of the claims, null for claims without `holder`. */
export type Creation = "created" | "full" | { takenBy: string | null };

/**
 * PORT. Every function rejects with `ServiceError("store_unavailable")` when the store cannot do it; nothing is half done
 * then. A change is durable when the function resolves.
 */
export type Records<T extends object> = {
  /** Null for an id that is unknown or malformed, and for an unreadable record (which is logged once). */
  get: (id: string) => Promise<T | null>;
  /**
   * Stores a new record unless one of its claims is taken, or `limit.index` has `limit.max` entries. `ignored`: a deleted or
   * unreadable record, whose claims do not count.
   */
  create: (
    id: string,
    record: T,
    options?: { limit?: { index: Index; max: number }; ignored?: string },
  ) => Promise<Creation>;
  /**
   * Compare-and-set: writes what `next` makes of the current record (null: there is none). Null deletes the record,
   * undefined leaves it. After a concurrent change `next` is called again. `lazy`: durable only with the next change.
   */
  change: (
    id: string,
    next: (current: T | null) => T | null | undefined,
    options?: { lazy?: boolean },
  ) => Promise<Change<T>>;
  /** Every readable record, in no order; in a key-value store for a table only. */
  all: () => Promise<T[]>;
  /** Ids in an index that are also in `and`, newest first: those before a position, or all but the first `skip`. */
  newest: (
    index: Index,
    query: { limit: number; before?: Position | null; skip?: number; and?: Index },
  ) => Promise<Position[]>;
  /** Ids in an index that are also in `and`, oldest first. */
  oldest: (index: Index, query?: { limit?: number; skip?: number; and?: Index }) => Promise<string[]>;
  /** Ids in an index by time, up to and with `until`, but the first `skip`; at most 500 at once. */
  due: (index: Index, until: number, skip?: number) => Promise<string[]>;
  /** Ids that begin with this text, in no order; in a key-value store for kinds with `ids` only. */
  startingWith: (beginning: string, limit: number) => Promise<string[]>;
  /** The value of each id in an index. */
  values: (index: Index) => Promise<[id: string, value: unknown][]>;
  count: (index: Index) => Promise<number>;
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

/** Opens the records of a kind; `directory` is for files. */
export type OpenRecords = <T extends object>(kind: Kind<T>, directory: string) => Promise<Records<T>>;

/** Most ids that one call lists or removes. */
export const maxBatch = 500;

const noRecord = "it holds no such record";

/** Reads the text with a schema's `parse`. */
export const parseWith =
  <T>(parse: (value: unknown) => T, isRight: (record: T, id: string) => boolean = () => true) =>
  (text: string, id: string): T | string => {
    try {
      const record = parse(JSON.parse(text));
      return isRight(record, id) ? record : noRecord;
    } catch {
      return noRecord;
    }
  };

/** For adapters, before they write: an invalid id could be a path to elsewhere. */
export const requireId = ({ isId, noun }: Pick<Kind<object>, "isId" | "noun">, id: string): void => {
  if (!isId(id)) throw new Error(`${JSON.stringify(id.slice(0, 100))} is no id of a ${noun}`);
};
