/** Names and values, in turn. */
export type Fields = readonly string[];

/** `position`: two numbers, `1-0`; those of later entries are greater. */
export type Entry = { position: string; fields: Fields };

/** How the logs of one kind are written. */
export type LogFormat = {
  /** Of the key in the store: `{prefix}:{key}:{id}`. */
  key: string;
  /** By which readers are told that something was appended: `{topic}:{id}`. */
  topic: string;
  /** Whether positions are `1-0`, `2-0`, … without gaps. Otherwise they are times: ms since the epoch, and a number. */
  numbered: boolean;
  /** Entries that are kept, the newest. */
  most: number;
  /** The field of a batch's last entry that has the batch's name. */
  batchField: string;
  /** Whether nothing follows an entry as the store keeps it. */
  isEnd: (entry: Entry) => boolean;
};

/** What is appended at once. */
export type Batch = {
  /** Tells a batch that was written although the reply was lost from one that was not. */
  name: string;
  /** Whether it was sent before. */
  again: boolean;
  /** What the log held is removed first. */
  begin: boolean;
  /** Comes in front of the others when the log is empty. */
  first: Fields | null;
  entries: readonly Fields[];
  /** Whether nothing follows them, until something does. */
  isEnd: boolean;
  /** Seconds that the log is kept from now on, where nobody removes it. */
  seconds: number;
};

/** What is known of a log: where it ends, its size in bytes, and whether more will come. */
type Tail = { position: string; size: number; state: "open" | "ended" | "unknown" };

/**
 * Append-only logs by id: those of this process (`local-logs.ts`), or in the key-value store (`redis-logs.ts`). Who reads
 * holds a position and a page of some 256 KiB, so that one that stalls costs no memory.
 */
export type Logs = {
  /** Whether other instances write them too, and they may be unreachable for a while. */
  shared: boolean;
  /** Resolves to the size of the log in bytes. A batch that was appended already is not appended again. */
  append: (id: string, batch: Batch) => Promise<number>;
  /** Null: there is no such log. */
  tail: (id: string) => Promise<Tail | null>;
  /**
   * Makes a reader, which gives the entries behind a position, to be asked for those behind the last one next. None: that
   * is the end; null: they cannot be read at present.
   */
  reader: (id: string) => (position: string) => Promise<Entry[] | null>;
  /** Resolves when something was appended, after 2 s at the latest, or when the signal aborts. */
  changed: (id: string, signal: AbortSignal) => Promise<void>;
  remove: (id: string) => Promise<void>;
};

/** In front of every entry. */
export const nothingSeen = "0-0";

export const positionForm = /^\d{1,15}-\d{1,15}$/;

/** The first number of a position. */
export const numberOf = (position: string): number => Number(position.slice(0, position.indexOf("-")));

/** Whether one position is behind another. */
export const isBehind = (position: string, other: string): boolean =>
  numberOf(position) - numberOf(other) > 0 ||
  (numberOf(position) === numberOf(other) && secondOf(position) > secondOf(other));

const secondOf = (position: string): number => Number(position.slice(position.indexOf("-") + 1));
