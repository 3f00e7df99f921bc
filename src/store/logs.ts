/** Names and values, alternating. */
export type Fields = readonly string[];

/** `position`: two numbers, `1-0`; later entries have greater ones. */
export type Entry = { position: string; fields: Fields };

/** How the logs of one kind are written. */
export type LogFormat = {
  /** Part of the key in the store: `{prefix}:{key}:{id}`. */
  key: string;
  /** Readers are notified of new entries by the name `{topic}:{id}`. */
  topic: string;
  /** Positions are `1-0`, `2-0`, … without gaps; otherwise times: ms since the epoch, and a number. */
  numbered: boolean;
  /** Only the newest entries are retained. */
  maxEntries: number;
  /** The field of a batch's last entry that holds the batch's name. */
  batchField: string;
  /** Whether nothing follows an entry as the store holds it. */
  isEnd: (entry: Entry) => boolean;
};

/** Entries that are appended at once. */
export type Batch = {
  /** `{writer}:{number}`: identifies a batch that was written although the reply was lost. A writer counts upwards. */
  name: string;
  /** Whether it was sent before. */
  isRetry: boolean;
  /** Removes what the log holds first. */
  reset: boolean;
  /** Written before the others when the log is empty. */
  first: Fields | null;
  entries: readonly Fields[];
  /** Whether the log ends here, until something is appended again. */
  isEnd: boolean;
  /** Seconds until the log expires. */
  seconds: number;
};

/** The end of a log, its size in bytes, and whether more will come. */
type Tail = { position: string; size: number; state: "open" | "ended" | "unknown" };

/**
 * PORT. Append-only logs by id: of this process (`local-logs.ts`), or in the key-value store (`redis-logs.ts`). A reader
 * holds a position and a page of some 256 KiB, so that a stalled one costs no memory.
 */
export type Logs = {
  /** Whether other instances write these logs too, and they may be unreachable for a while. */
  shared: boolean;
  /** Resolves to the size of the log in bytes. Appending a batch twice has no effect. */
  append: (id: string, batch: Batch) => Promise<number>;
  /** Null: there is no such log. */
  tail: (id: string) => Promise<Tail | null>;
  /**
   * Makes a reader of consecutive pages, each asked for by the position of the last entry read. Empty: the end is reached;
   * null: the log cannot be read at present.
   */
  reader: (id: string) => (position: string) => Promise<Entry[] | null>;
  /** Resolves when something was appended, after 2 s at the latest, or when the signal aborts. */
  changed: (id: string, signal: AbortSignal) => Promise<void>;
  remove: (id: string) => Promise<void>;
};

/** Before every entry. */
export const startPosition = "0-0";

export const positionForm = /^\d{1,15}-\d{1,15}$/;

/** The first number of a position. */
export const numberOf = (position: string): number => Number(position.slice(0, position.indexOf("-")));

const secondOf = (position: string): number => Number(position.slice(position.indexOf("-") + 1));

/** Whether a position is after another. */
export const isAfter = (position: string, other: string): boolean =>
  numberOf(position) - numberOf(other) > 0 ||
  (numberOf(position) === numberOf(other) && secondOf(position) > secondOf(other));

/** The start of a text that is too long, in characters, with a note. */
export const cutText = (text: string, longest: number): string =>
  text.length <= longest
    ? text
    : `${text.slice(0, longest)}\n[… ${text.length - longest} characters left out …]`;

type Follow = {
  logs: Logs;
  id: string;
  after: string;
  /** Whether this instance has nothing left to write. */
  isWritten: () => boolean;
  /** Whether a log without a known end is complete, asked when all of it has been read. */
  isOver: (exists: boolean) => Promise<boolean>;
  /** Ends where nothing more is there at present. */
  once?: boolean;
  signal: AbortSignal;
};

/** Entries after a position, then new ones, until the log ends or the signal aborts. */
export const follow = async function* (options: Follow): AsyncGenerator<Entry> {
  const { logs, id, signal } = options;
  const closed = new AbortController();
  const stop = AbortSignal.any([signal, closed.signal]);
  const read = logs.reader(id);
  let position = options.after;
  try {
    // Subscribed before each read: no entry that is appended during the read is missed.
    let change = logs.changed(id, stop);
    while (!stop.aborted) {
      const page = await read(position);
      position = page?.at(-1)?.position ?? position;
      for (const entry of page ?? []) {
        yield entry;
        if (stop.aborted) return;
      }
      if (page !== null && page.length > 0) continue;
      if (page !== null && (options.once === true || (await isAtEnd(options, position)))) return;
      await change;
      change = logs.changed(id, stop);
    }
  } finally {
    closed.abort();
  }
};

const isAtEnd = async ({ logs, id, isWritten, isOver }: Follow, position: string): Promise<boolean> => {
  try {
    // A write in flight need not show in the tail.
    const wasWritten = isWritten();
    const tail = await logs.tail(id);
    if (!isWritten() || tail?.state === "open") return false;
    if (tail?.state === "ended") return !isAfter(tail.position, position);
    return wasWritten && (await isOver(tail !== null));
  } catch {
    return false;
  }
};
