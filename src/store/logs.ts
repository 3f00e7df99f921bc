/** Names and values of an entry. */
export type Fields = Readonly<Record<string, string>>;

/** Entries of a log are numbered without a gap. */
export type Entry = { number: number; fields: Fields };

/** The end of a log: the number of its newest entry, and its size in bytes. */
export type Tail = { number: number; size: number };

/** Entries that are appended at once. */
export type Batch = {
  /** Identifies a batch that was written although the reply was lost. */
  name: string;
  /** The end of the log as the writer knows it: earlier entries cannot be of this batch. */
  known: Tail;
  /** Number of the first entry of an empty log. */
  start: number;
  /** Written before the others when the log is empty. */
  first: Fields | null;
  entries: readonly Fields[];
  /** Seconds until the log expires. */
  seconds: number;
};

/** `at`: where an adapter goes on; 0 at first. */
type Page = { entries: Entry[]; at: number };

/**
 * PORT. Append-only logs by id: in files or in memory (`local-logs.ts`), or streams in the key-value store
 * (`redis-logs.ts`). A reader holds a position and one page, so that a stalled one costs no memory.
 */
export type Logs = {
  /** Whether other instances write these logs too, and they may be unreachable for a while. */
  shared: boolean;
  /** Resolves to the new end of the log. Appending a batch twice has no effect. */
  append: (id: string, batch: Batch) => Promise<Tail>;
  /** Null: there is no such log. */
  tail: (id: string) => Promise<Tail | null>;
  /** Some entries after a number. None: the end is reached; null: the log cannot be read at present. */
  read: (id: string, after: number, at: number) => Promise<Page | null>;
  /** Resolves when something was appended, after 2 s at the latest, or when the signal aborts. */
  changed: (id: string, signal: AbortSignal) => Promise<void>;
  remove: (id: string) => Promise<void>;
};

/** The start of a text that is too long, in characters, with a note. */
export const cutText = (text: string, longest: number): string =>
  text.length <= longest
    ? text
    : `${text.slice(0, longest)}\n[… ${text.length - longest} characters left out …]`;

type Follow = {
  logs: Pick<Logs, "read" | "changed">;
  id: string;
  after: number;
  /** Whether nothing will follow, asked when all has been read. */
  isOver: () => boolean | Promise<boolean>;
  signal: AbortSignal;
};

/** Entries after a number, then new ones, until the log is over or the signal aborts. */
export const follow = async function* ({ logs, id, after, isOver, signal }: Follow): AsyncGenerator<Entry> {
  const closed = new AbortController();
  const stop = AbortSignal.any([signal, closed.signal]);
  let [number, at, over] = [after, 0, false];
  try {
    // Subscribed before each read: no entry that is appended during the read is missed.
    let change = logs.changed(id, stop);
    while (!stop.aborted) {
      const page = await logs.read(id, number, at);
      for (const entry of page?.entries ?? []) {
        yield entry;
        if (stop.aborted) return;
        ({ number } = entry);
      }
      if (page !== null) ({ at } = page);
      const isAtEnd = page !== null && page.entries.length === 0;
      if (isAtEnd && over) return;
      over = isAtEnd && (await isOver());
      if (over || (page !== null && !isAtEnd)) continue;
      await change;
      change = logs.changed(id, stop);
    }
  } finally {
    closed.abort();
  }
};
