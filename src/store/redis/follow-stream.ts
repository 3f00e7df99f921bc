import type { JobEvent } from "../../contract/event.ts";
import type { Kv } from "../../kv/kv.ts";
import { endOf, seqOf } from "./event-scripts.ts";

type Follow = {
  kv: Kv;
  key: string;
  /** Number of the last event that is not yielded. */
  after: number;
  /** What the record says about the job; null: there is none. */
  describe: () => Promise<{ over: boolean } | null>;
  /** Writes the first event of an empty log. */
  begin: () => Promise<void>;
  /** Whether this instance has written what it has to write. */
  isWritten: () => boolean;
  /** Resolves when something was appended, perhaps; after a few seconds in any case; or when the signal aborts. */
  changed: (signal: AbortSignal) => Promise<void>;
  signal: AbortSignal;
};

type Entry = [id: string, fields: string[]];

/** A page is at most this many entries and about this many bytes. */
const longestPage = 200;
const pageBytes = 256 * 1024;
const firstPage = 20;

/** How often the record is asked whether anything is still to come, ms. */
const describeEvery = 2000;

/**
 * The events of a stream, then those to come. Holds a position and one page: a reader that stalls costs nothing, and one
 * that cannot reach the store waits until it can.
 */
export const followStream = async function* (follow: Follow): AsyncGenerator<JobEvent> {
  const left = new AbortController();
  const stop = AbortSignal.any([follow.signal, left.signal]);
  const isOver = createVerdict(follow);
  let position = `${follow.after}-0`;
  let count = firstPage;
  try {
    // Asked before reading: what is appended while we read is told by this promise, not lost.
    let change = follow.changed(stop);
    while (!stop.aborted) {
      const page = await readPage(follow, position, count);
      for (const [id, fields] of page ?? []) {
        const event = toEvent(id, fields);
        if (event !== null) yield event;
        if (stop.aborted) return;
        position = id;
      }
      if (page !== null && page.length > 0) {
        count = nextCount(page);
        continue;
      }
      if (page !== null && (await isOver(seqOf(position)))) return;
      await change;
      change = follow.changed(stop);
    }
  } finally {
    left.abort();
  }
};

/** Null: the store cannot be read at present. */
const readPage = async ({ kv, key }: Follow, position: string, count: number): Promise<Entry[] | null> =>
  await kv.ask((client) => client.xrange(key, `(${position}`, "+", "COUNT", count)).catch(() => null);

const nextCount = (page: Entry[]): number => {
  const bytes = page.reduce((sum, [, fields]) => sum + (fields[3]?.length ?? 0), 0);
  return Math.max(1, Math.min(longestPage, Math.floor((pageBytes * page.length) / Math.max(1, bytes))));
};

const toEvent = (id: string, fields: string[]): JobEvent | null => {
  if (fields[2] !== "e") return null;
  try {
    return { seq: seqOf(id), ...(JSON.parse(fields[3] ?? "") as Omit<JobEvent, "seq">) } as JobEvent;
  } catch {
    // An event that is not JSON was damaged outside of us; the others still tell their story.
    return null;
  }
};

/** Says whether a reader that has nothing more to read may leave. */
const createVerdict = (follow: Follow) => {
  let asked = -Infinity;
  let saidOver = false;

  /**
   * A job without an end mark may have ended a moment ago, and its last events be on their way: they get the time
   * until the record is asked again.
   */
  const ask = async (isEmpty: boolean): Promise<boolean> => {
    if (performance.now() - asked < describeEvery) return false;
    const job = await follow.describe();
    asked = performance.now();
    if (job === null || (job.over && saidOver)) return true;
    saidOver = job.over;
    if (isEmpty && !job.over) await follow.begin();
    return false;
  };

  return async (seq: number): Promise<boolean> => {
    try {
      const end = await endOf(follow.kv, follow.key);
      if (!follow.isWritten()) return false;
      if (end?.ended === true) return end.seq <= seq;
      return await ask(end === null);
    } catch {
      return false;
    }
  };
};
