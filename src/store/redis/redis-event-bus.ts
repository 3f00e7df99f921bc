import type { Kv } from "../../kv/kv.ts";
import type { Bell } from "../../lib/bell.ts";
import type { Log } from "../../lib/log.ts";
import { busPositionForm, isBehind, type EventBus } from "../event-bus.ts";
import { gathering } from "../pending-bus-events.ts";
import { eventOf } from "./bus-scripts.ts";
import { createBusWriter, type BusWriter } from "./bus-writer.ts";

type Options = {
  kv: Kv;
  /** Of all instances; `next` resolves after a few seconds at the latest, since a ring may be lost. */
  bell: Bell;
  log: Log;
  gatherMs?: number;
};

/** Entries that are read at once. */
const pageSize = 50;

/** In front of every entry. */
const nothingSeen = "0-0";

/** One stream `{prefix}:events:{correlation_id}` per completion, which any instance appends to and reads. */
export const createRedisEventBus = ({ kv, bell, log, gatherMs = gathering }: Options): EventBus => {
  const writers = new Map<string, BusWriter>();
  const closing = new AbortController();
  const keyOf = (id: string): string => kv.key("events", id);
  const bellOf = (id: string): string => `bus:${id}`;

  const writerOf = (id: string): BusWriter => {
    const known = writers.get(id);
    if (known !== undefined) return known;
    const changed = (): void => bell.ring(bellOf(id));
    const writer = createBusWriter({ kv, key: keyOf(id), gatherMs, changed, log, closing: closing.signal });
    writers.set(id, writer);
    return writer;
  };

  const forgetWhenWritten = async (id: string, writer: BusWriter): Promise<void> => {
    await writer.done();
    if (writers.get(id) === writer && writer.isIdle()) writers.delete(id);
  };

  /** Null: the store cannot be read at present. */
  const readPage = async (id: string, from: string): Promise<[string, string[]][] | null> =>
    await kv.ask((client) => client.xrange(keyOf(id), from, "+", "COUNT", pageSize)).catch(() => null);

  /** Whether nothing is to come behind that position: the last event is `done`, or there is no such stream. */
  const isOver = async (id: string, position: string): Promise<boolean> => {
    if (writers.get(id)?.isIdle() === false) return false;
    try {
      const [last] = await kv.ask((client) => client.xrevrange(keyOf(id), "+", "-", "COUNT", 1));
      if (last !== undefined) return eventOf(last[1])?.event_type === "done" && !isBehind(last[0], position);
      return (await kv.ask((client) => client.exists(keyOf(id)))) === 0;
    } catch {
      return false;
    }
  };

  return {
    begin: (id) => writerOf(id).begin(),

    publish: (event) => {
      const id = event.correlation_id;
      const writer = writerOf(id);
      writer.add(event);
      if (event.event_type === "done") void forgetWhenWritten(id, writer);
    },

    read: async function* (id, after, signal) {
      let seen = after !== null && busPositionForm.test(after) ? after : nothingSeen;
      const left = new AbortController();
      const stop = AbortSignal.any([signal, left.signal]);
      try {
        // Asked before reading: what is appended while we read is told by this promise, not lost.
        let change = bell.next(bellOf(id), stop);
        while (!stop.aborted) {
          const page = await readPage(id, `(${seen}`);
          for (const [position, fields] of page ?? []) {
            const event = eventOf(fields);
            seen = position;
            if (event === null) continue;
            yield { position, event };
            if (event.event_type === "done" || stop.aborted) return;
          }
          if (page !== null && page.length > 0) continue;
          if (page !== null && (await isOver(id, seen))) return;
          await change;
          change = bell.next(bellOf(id), stop);
        }
      } finally {
        left.abort();
      }
    },

    close: async () => {
      closing.abort();
      await Promise.all(Array.from(writers.values(), (writer) => writer.done()));
    },
  };
};
