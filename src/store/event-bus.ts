import { z } from "zod";
import type { Log } from "../lib/log.ts";
import type { Item } from "./backlog.ts";
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

const names = BusEvent.keyof().options;

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
const mostWaiting = { items: mostEvents, size: 4 * 1024 * 1024 };

/** How long events are kept, s: after `done`, and after the last one where `done` never comes, since no turn is longer. */
const afterDone = 3600;
const neverDone = 8 * 86_400;

export const createEventBus = ({ logs, log, gatherMs = 200 }: Options): EventBus => {
  const writers = createLogWriters<BusEvent>({
    logs,
    noun: "completion",
    most: mostWaiting,
    gatherMs,
    seconds: { ended: afterDone, open: neverDone },
    look: async () => ({ size: 0, first: null }),
    encoder: () => (events) => events.map(({ value }) => names.flatMap((name) => [name, value[name]])),
    join: (last, next) =>
      isPieceOf(last, next) ? waiting({ ...last, content: last.content + next.content }) : null,
    log,
  });

  return {
    begin: writers.begin,

    publish: (event) => {
      writers.append(event.correlation_id, waiting({ ...event, content: cut(event.content) }));
      if (event.event_type === "done") void writers.end(event.correlation_id);
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

const waiting = (value: BusEvent): Item<BusEvent> => ({ value, size: value.content.length, level: 2 });

const isPieceOf = (last: BusEvent, event: BusEvent): boolean =>
  (event.event_type === "thinking" || event.event_type === "assistant_text") &&
  last.event_type === event.event_type &&
  last.session_id === event.session_id &&
  last.content.length + event.content.length <= longestJoined;

const cut = (text: string): string =>
  text.length <= longest
    ? text
    : `${text.slice(0, longest)}\n[… ${text.length - longest} characters left out …]`;

/** Null: not an event of this version. */
const eventOf = (fields: Fields): BusEvent | null => {
  const pairs = names.map((_, at) => fields.slice(2 * at, 2 * at + 2));
  return BusEvent.safeParse(Object.fromEntries(pairs)).data ?? null;
};
