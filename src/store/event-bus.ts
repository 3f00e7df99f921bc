import { z } from "zod";
import type { Log } from "../lib/log.ts";
import { createBacklog } from "./backlog.ts";
import { follow } from "./follow.ts";
import { createLogWriters } from "./log-writers.ts";
import { nothingSeen, positionForm, type Fields, type LogFormat, type Logs } from "./logs.ts";

/** What happened in a completion, for those who look on. */
export const BusEvent = z.object({
  event_type: z.enum(["thinking", "tool_use", "tool_result", "assistant_text", "error", "done"]),
  /** Text; of a tool call and its result JSON. */
  content: z.string(),
  /** ISO 8601. */
  ts: z.string(),
  session_id: z.string(),
  correlation_id: z.string(),
});
export type BusEvent = z.infer<typeof BusEvent>;

/** The events of each completion, the newest 2000, until an hour after `done`. */
export type EventBus = {
  /**
   * Begins anew: what an earlier turn of the same id left is removed. Never rejects: while the store is away that is done
   * with the first event that it takes.
   */
  begin: (correlationId: string) => Promise<void>;
  /**
   * Never waits and never throws: what cannot be written is left out with a warning in the log. Order is kept. Pieces of
   * thinking or text that come in quick succession become one event.
   */
  publish: (event: BusEvent) => void;
  /**
   * Events after the position (null: from the first that is there), each with its own, then those to come, until `done` or
   * the signal. Ends at once for an id that nobody knows.
   */
  read: (
    correlationId: string,
    after: string | null,
    signal: AbortSignal,
  ) => AsyncIterable<{ position: string; event: BusEvent }>;
  /** Writes what waits, or gives it up when the store is away. */
  close: () => Promise<void>;
};

const mostEvents = 2000;

export const eventBusFormat: LogFormat = {
  key: "events",
  topic: "bus",
  numbered: false,
  most: mostEvents,
  batchField: "batch",
  isEnd: ({ fields }) => fields[1] === "done",
};

type Options = {
  logs: Logs;
  log: Log;
  /** How long pieces of thinking and text gather before they become an event, ms. */
  gatherMs?: number;
};

/** Longest text that pieces are joined to, longest of all (JSON of such a text may be that much longer), characters. */
const longestJoined = 65_536;
const longest = 6 * longestJoined + 4096;

/** Most that waits for one completion. */
const mostWaiting = { values: mostEvents, size: 4 * 1024 * 1024 };

/** How long events are kept, s: after `done`, and after the last one where `done` never comes, since no turn is longer. */
const afterDone = 3600;
const neverDone = 8 * 86_400;

export const createEventBus = ({ logs, log, gatherMs = 200 }: Options): EventBus => {
  const open = (id: string) => {
    let begin = false;
    const onLeftOut = (): void =>
      log.warn(
        { completion: id },
        "too many events of a completion wait to be written; the oldest are left out",
      );
    const backlog = createBacklog<BusEvent>({ most: mostWaiting, onLeftOut });
    const clear = (): void => {
      backlog.take(Infinity);
      begin = false;
    };

    return {
      add: (given: BusEvent): void => {
        const last = backlog.pop();
        const isPiece = last !== undefined && isPieceOf(last.value, given);
        if (last !== undefined && !isPiece) backlog.add(last);
        const content = isPiece ? last.value.content + given.content : cut(given.content);
        const value = { ...(isPiece ? last.value : given), content };
        backlog.add({ value, size: content.length, level: 2 });
      },
      begin: (): void => {
        clear();
        begin = true;
      },
      isEmpty: () => backlog.isEmpty() && !begin,
      take: async () => {
        const events = backlog.take(Infinity);
        if (events.length === 0 && !begin) return null;
        const isEnd = events.at(-1)?.event_type === "done";
        const batch = {
          begin,
          first: null,
          entries: events.map(fieldsOf),
          isEnd,
          seconds: isEnd ? afterDone : neverDone,
        };
        begin = false;
        return batch;
      },
      written: backlog.written,
      clear,
    };
  };

  const writers = createLogWriters({ logs, open, gatherMs, noun: "completion", log });

  return {
    begin: async (id) => {
      const { box, drop, start, settled } = writers.of(id);
      drop();
      box.begin();
      start(true);
      await settled();
    },

    publish: (event) => {
      const id = event.correlation_id;
      const { box, start } = writers.of(id);
      const isDone = event.event_type === "done";
      box.add(event);
      start(isDone);
      if (isDone) void writers.release(id);
    },

    read: async function* (id, after, signal) {
      const from = after !== null && positionForm.test(after) ? after : nothingSeen;
      const isWritten = (): boolean => writers.isIdle(id);
      const isOver = async (exists: boolean): Promise<boolean> => !exists;
      for await (const { position, fields } of follow({ logs, id, after: from, isWritten, isOver, signal })) {
        const event = eventOf(fields);
        if (event === null) continue;
        yield { position, event };
        if (event.event_type === "done") return;
      }
    },

    close: writers.close,
  };
};

const isPieceOf = (last: BusEvent, event: BusEvent): boolean =>
  (event.event_type === "thinking" || event.event_type === "assistant_text") &&
  last.event_type === event.event_type &&
  last.session_id === event.session_id &&
  last.content.length + event.content.length <= longestJoined;

const cut = (text: string): string =>
  text.length <= longest
    ? text
    : `${text.slice(0, longest)}\n[… ${text.length - longest} characters left out …]`;

const fieldsOf = (event: BusEvent): Fields => [
  "event_type",
  event.event_type,
  "content",
  event.content,
  "ts",
  event.ts,
  "session_id",
  event.session_id,
  "correlation_id",
  event.correlation_id,
];

/** Null: not an event of this version. */
const eventOf = (fields: Fields): BusEvent | null => {
  const names = fields.flatMap((name, at) => (at % 2 === 0 ? [[name, fields[at + 1]]] : []));
  return BusEvent.safeParse(Object.fromEntries(names)).data ?? null;
};
