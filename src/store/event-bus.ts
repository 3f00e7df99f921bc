import { z } from "zod";

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

/**
 * PORT. The events of each completion, newest 2000, until an hour after `done`: the stream `{prefix}:events:{correlation_id}`
 * in the key-value store, or this process's memory.
 */
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

/** The form of a position: that of the ids of a stream's entries. */
export const busPositionForm = /^\d{1,15}-\d{1,15}$/;

export const busLimits = { entries: 2000, secondsAfterDone: 3600 } as const;

/** Whether one position is behind another; one that is malformed is before all. */
export const isBehind = (position: string, other: string): boolean => {
  const [ms = -1, number = 0] = numbersOf(position);
  const [otherMs = -1, otherNumber = 0] = numbersOf(other);
  return ms > otherMs || (ms === otherMs && number > otherNumber);
};

const numbersOf = (position: string): number[] =>
  busPositionForm.test(position) ? position.split("-").map(Number) : [];
