/**
 * The records of one kind (jobs, completions, …): JSON texts by id, and indexes over them. `files-records.ts` and
 * `redis-records.ts` keep them; what a kind is, and what can be asked of it, stands once beside this file (`job-store.ts`, …).
 */

/** How the entries of an index are ordered: by when the record was created, by a time, or not at all (each has a value). */
type Order = "creation" | "time" | "none";

/** `name` is the last part of its key in the key-value store. */
export type Index = { name: string; order: Order };

/** A record's place in an index; `at` in ms since the epoch. */
export type IndexEntry = { index: Index; at: number; value?: readonly unknown[] };

/** What no two records may have at a time. `holder`: it is asked who has it. */
export type Claim = { name: string; value: string; holder: boolean };

export type Position = { created: number; id: string };

export type Kind<T extends object> = {
  /** What a record is called in messages. */
  noun: string;
  /** Every other id is unknown: it never becomes a path or a key. */
  isId: (id: string) => boolean;
  /** The stored text as the record of this id, or why it is none. */
  parse: (text: string, id: string) => T | string;
  /** Its places in indexes; an `at` that is no number is left out. */
  entries: (record: T, id: string) => IndexEntry[];
  claims?: (record: T) => Claim[];
  /** When it is over, ms since the epoch; null: it stays. From then on nobody gets it any more. */
  expires?: (record: T) => number | null;
  files: {
    /** Kept whole in memory, since it is written again and again; all others are read from their file. */
    inMemory?: (record: T) => boolean;
    /** Operators may write, edit and delete the files: each is read every time, and none is indexed. */
    editable?: boolean;
  };
  redis: {
    /** A string for each record, a hash for each with the record and its version, or one hash of all records. */
    layout: "string" | "hash" | "table";
    /** Parts of the key; of a table without the id. */
    key: (id: string) => string[];
    /** Name of the hash's field that holds the version. */
    version?: string;
    /** Records and indexes lie in one slot of a Cluster: one script changes them together. */
    oneSlot: boolean;
    /** Seconds after which a record goes that nobody removes; 0: never. */
    seconds?: (record: T) => number;
    /** A text field that is kept apart when it is long, `[first part of its key, seconds it is kept]`. */
    apart?: { field: keyof T & string; key: string; seconds: (record: T) => number };
    /** Of records in slots of their own: indexes out of which `expire` takes the entries of records that are gone. */
    swept?: Index[];
  };
};

export type Change<T> = { after: T | null; changed: boolean };

/** Why a record was not created: too many are in the limiting index, or another record has one of its claims (null: nobody asked which). */
export type Creation = "created" | "full" | { takenBy: string | null };

/**
 * PORT. Every function rejects with `ServiceError("store_unavailable")` when the store cannot do it; nothing is half done
 * then. What is written is durable when the function resolves.
 */
export type Records<T extends object> = {
  /** Null for an id that is unknown or malformed, and for a record that cannot be read (which is warned of once). */
  get: (id: string) => Promise<T | null>;
  /**
   * Stores a new record unless one of its claims is taken, or `limit.index` has `limit.most` entries. `ignored`: a record that
   * is gone or unreadable, whose claims count for nothing.
   */
  create: (
    id: string,
    record: T,
    options?: { limit?: { index: Index; most: number }; ignored?: string },
  ) => Promise<Creation>;
  /**
   * Compare-and-set: writes what `next` makes of the record as it is (null: there is none); null deletes it, undefined leaves
   * it. When somebody else was faster `next` is asked again. `lazy`: it may be durable only with the next change.
   */
  change: (
    id: string,
    next: (current: T | null) => T | null | undefined,
    options?: { lazy?: boolean },
  ) => Promise<Change<T>>;
  /** Every record that can be read, in no order; in a key-value store of a table only. */
  all: () => Promise<T[]>;
  /** Ids in an index, the newest first: those before a position, or all but the first `skip`. */
  newest: (
    index: Index,
    query: { limit: number; before?: Position | null; skip?: number },
  ) => Promise<Position[]>;
  /** Ids in an index that are also in `and`, the oldest first. */
  oldest: (index: Index, query?: { limit?: number; skip?: number; and?: Index }) => Promise<string[]>;
  /** Ids in an index by time, up to and with `until`; not all at once when they are many. */
  due: (index: Index, until: number) => Promise<string[]>;
  /** What an index holds of each id. */
  values: (index: Index) => Promise<[id: string, value: unknown][]>;
  count: (index: Index) => Promise<number>;
  /** Removes what is over, as far as the store does not do that itself. Not all at once when they are many. */
  expire: (now: Date) => Promise<void>;
  /** Adds one to a counter. */
  increment: (counter: string) => Promise<void>;
  /** Counters by name: in files since this start, in a key-value store ever since. */
  counters: (names: readonly string[]) => Promise<number[]>;
  /** Rejects when nothing can be stored at present. */
  check: () => Promise<void>;
  /** Resolves when what is under way has ended. */
  close: () => Promise<void>;
};

/** Opens the records of a kind; `directory` is where files keep them. */
export type OpenRecords = <T extends object>(kind: Kind<T>, directory: string) => Promise<Records<T>>;

/** How many are told or removed at once. */
export const atOnce = 500;

const noRecord = "it holds no record of this version";

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
