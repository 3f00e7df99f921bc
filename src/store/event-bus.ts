import { z } from "zod";
import type { Log } from "../lib/log.ts";
import { createLogWriters, type Item } from "./log-writers.ts";
import {
  cutText,
  follow,
  positionForm,
  startPosition,
  type Fields,
  type LogFormat,
  type Logs,
} from "./logs.ts";

/** An event of a completion, for subscribers. */
export const BusEvent = z.object({
  event_type: z.enum(["thinking", "tool_use", "tool_result", "assistant_text", "error", "done"]),
  /** Text; for a tool call and its result JSON. */
  content: z.string(),
  /** ISO 8601. */
  ts: z.string(),
  session_id: z.string(),
  correlation_id: z.string(),
});
export type BusEvent = z.infer<typeof BusEvent>;

const names = BusEvent.keyof().options;

/** The newest 2000 events of each completion, until an hour after `done`. */
export type EventBus = {
  /**
   * Removes the events of an earlier turn with the same id. Never rejects: while the store is unreachable the removal waits
   * for the first event that can be written.
   */
  begin: (correlationId: string) => Promise<void>;
  /**
   * Never waits and never throws: an event that cannot be written is left out with a warning in the log. Order is preserved.
   * Pieces of thinking or text in quick succession become one event.
   */
  publish: (event: BusEvent) => void;
  /**
   * Events after the position (null: from the first), each with its own position, then new ones, until `done` or the signal.
   * Ends at once for an unknown id.
   */
  read: (
    correlationId: string,
    after: string | null,
    signal: AbortSignal,
  ) => AsyncIterable<{ position: string; event: BusEvent }>;
  /** Writes what waits, or gives it up when the store is unreachable. */
  close: () => Promise<void>;
};

const maxEvents = 2000;

export const eventBusFormat: LogFormat = {
  key: "events",
  topic: "bus",
  numbered: false,
  maxEntries: maxEvents,
  batchField: "batch",
  isEnd: ({ fields }) => fields[1] === "done",
};

type Options = {
  logs: Logs;
  log: Log;
  /** How long pieces of thinking and text are collected before they become an event, ms. */
  gatherMs?: number;
};

/** Longest joined text, and longest of all (the JSON of such a text may be six times as long), characters. */
const longestJoined = 65_536;
const longest = 6 * longestJoined + 4096;

/** Most that waits for one completion. */
const limit = { items: maxEvents, size: 4 * 1024 * 1024 };

/** Retention of events, s: after `done`, and after the last event of a turn without `done`; no turn is longer. */
const afterDone = 3600;
const withoutDone = 8 * 86_400;

export const createEventBus = ({ logs, log, gatherMs = 200 }: Options): EventBus => {
  const writers = createLogWriters<BusEvent>({
    logs,
    noun: "completion",
    limit,
    gatherMs,
    seconds: { ended: afterDone, open: withoutDone },
    inspect: async () => ({ size: 0, first: null }),
    encoder: () => (events) => events.map(({ value }) => names.flatMap((name) => [name, value[name]])),
    join: (last, next) =>
      isPieceOf(last, next) ? itemOf({ ...last, content: last.content + next.content }) : null,
    log,
  });

  return {
    begin: writers.reset,

    publish: (event) => {
      writers.append(event.correlation_id, itemOf({ ...event, content: cutText(event.content, longest) }));
      if (event.event_type === "done") void writers.end(event.correlation_id);
    },

    read: async function* (id, after, signal) {
      const from = after !== null && positionForm.test(after) ? after : startPosition;
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

const itemOf = (value: BusEvent): Item<BusEvent> => ({ value, size: value.content.length, level: 2 });

const isPieceOf = (last: BusEvent, event: BusEvent): boolean =>
  (event.event_type === "thinking" || event.event_type === "assistant_text") &&
  last.event_type === event.event_type &&
  last.session_id === event.session_id &&
  last.content.length + event.content.length <= longestJoined;

/** Null: not an event of this version. */
const eventOf = (fields: Fields): BusEvent | null => {
  const pairs = names.map((_, at) => fields.slice(2 * at, 2 * at + 2));
  return BusEvent.safeParse(Object.fromEntries(pairs)).data ?? null;
};
