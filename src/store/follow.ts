import { isBehind, type Entry, type Logs } from "./logs.ts";

type Follow = {
  logs: Logs;
  id: string;
  after: string;
  /** Whether this instance has written what it has to write. */
  isWritten: () => boolean;
  /** Whether who has read all of a log that is not known to go on or to have ended may leave. */
  isOver: (exists: boolean) => Promise<boolean>;
  signal: AbortSignal;
};

/** The entries behind a position, then those to come, until the log ends or the signal aborts. */
export const follow = async function* (asked: Follow): AsyncGenerator<Entry> {
  const { logs, id, signal } = asked;
  const left = new AbortController();
  const stop = AbortSignal.any([signal, left.signal]);
  const read = logs.reader(id);
  let position = asked.after;
  try {
    // Asked before reading: what is appended while we read is told by this promise, not lost.
    let change = logs.changed(id, stop);
    while (!stop.aborted) {
      const page = await read(position);
      position = page?.at(-1)?.position ?? position;
      for (const entry of page ?? []) {
        yield entry;
        if (stop.aborted) return;
      }
      if (page !== null && page.length > 0) continue;
      if (page !== null && (await isAtEnd(asked, position))) return;
      await change;
      change = logs.changed(id, stop);
    }
  } finally {
    left.abort();
  }
};

const isAtEnd = async ({ logs, id, isWritten, isOver }: Follow, position: string): Promise<boolean> => {
  try {
    // What was being written while the tail was looked up need not show in it.
    const wasWritten = isWritten();
    const tail = await logs.tail(id);
    if (!isWritten() || tail?.state === "open") return false;
    if (tail?.state === "ended") return !isBehind(tail.position, position);
    return wasWritten && (await isOver(tail !== null));
  } catch {
    return false;
  }
};
