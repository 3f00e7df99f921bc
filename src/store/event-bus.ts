import { z } from "zod";
import type { Log } from "../lib/log.ts";
import { createLogBuffers, cutText, follow, type Logs } from "./logs.ts";

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

type Reading = {
  /** The position of the last event that the reader has; null: it has none. */
  after: string | null;
  /** Events before this time (ISO 8601) are those of an earlier turn with the same id. */
  since: string;
  /** Only what is there. */
  once: boolean;
};

/** Name of the logs in the key-value store, and how many events of each are retained. */
export const eventBusLog = { name: "events", maxEntries: 2000 };

type Options = { logs: Logs; now: () => Date; log: Log };

/** Longest content, characters: the JSON of the longest text may be six times as long. */
const longest = 6 * 65_536 + 4096;

/** What an event weighs besides its content, bytes. */
const overhead = 200;

/** Retention of events, s: after `done`, and after the last event of a turn without `done`; no turn is longer. */
const afterDone = 3600;
const withoutDone = 8 * 86_400;

/** The newest 2000 events of each completion, until an hour after `done`. */
export const createEventBus = ({ logs, now, log }: Options) => {
  const buffers = createLogBuffers({
    logs,
    noun: "completion",
    // No number is used twice: a reader may have one of an earlier turn, whose events have expired.
    start: () => now().getTime(),
    seconds: (entries) => (entries.at(-1)?.["event_type"] === "done" ? afterDone : withoutDone),
    log,
  });

  return {
    /** Never waits and never throws: an event that cannot be written is left out with a warning in the log. */
    publish: (event: BusEvent): void => {
      const { event_type: type, correlation_id: id } = event;
      const content = cutText(event.content, longest);
      const isText = type === "thinking" || type === "assistant_text";
      const weight = isText ? "text" : type === "done" ? "needed" : "other";
      buffers.append(id, { fields: { ...event, content }, size: content.length + overhead, weight });
      if (type === "done") void buffers.flush(id);
    },

    /** Events of a turn, each with its position, then new ones, until `done` or the signal. */
    read: async function* (
      id: string,
      { after, since, once }: Reading,
      signal: AbortSignal,
    ): AsyncGenerator<{ position: string; event: BusEvent }, void, void> {
      const isOver = (): boolean => once && buffers.isIdle(id);
      for await (const entry of follow({ logs, id, after: numberOf(after), isOver, signal })) {
        const { data: event } = BusEvent.safeParse(entry.fields);
        if (event === undefined || event.ts < since) continue;
        yield { position: `${entry.number}-0`, event };
        if (event.event_type === "done") return;
      }
    },

    /** Writes what waits, or gives it up when the store is unreachable. */
    close: buffers.close,
  };
};

export type EventBus = ReturnType<typeof createEventBus>;

/** The number of a position; every position begins with one. */
const numberOf = (position: string | null): number => (position === null ? 0 : Number.parseInt(position, 10));
