import type { AgentEvent, StageEvent } from "../../contract/event.ts";
import { levelOf, shorten } from "../event-budget.ts";

export type PendingEvent = { at: string; attempt: number; event: AgentEvent | StageEvent; bytes: number };

/**
 * Events of a job that wait for the store, at most `limit` bytes of them: beyond it thinking and text go first, then all
 * but stages and the end, then the oldest. What went is told in the log by one warning.
 */
export const createPendingEvents = (limit: number) => {
  let waiting: PendingEvent[] = [];
  let bytes = 0;
  let leftOut = false;

  const push = (item: PendingEvent): void => {
    waiting.push(item);
    bytes += item.bytes;
  };

  const keep = (which: (item: PendingEvent) => boolean): void => {
    waiting = waiting.filter(which);
    bytes = waiting.reduce((sum, item) => sum + item.bytes, 0);
  };

  const makeRoom = ({ at, attempt }: PendingEvent): void => {
    keep(({ event }) => levelOf(event) > 0);
    if (bytes > limit) keep(({ event }) => levelOf(event) > 1);
    while (bytes > limit) bytes -= waiting.shift()?.bytes ?? bytes;
    if (leftOut) return;
    leftOut = true;
    const message = "More events came than the key-value store took: some before this are left out";
    push({ at, attempt, event: { type: "warning", message }, bytes: message.length });
  };

  return {
    /** False when something had to be left out for the first time since `written`. */
    add: (at: string, attempt: number, given: AgentEvent | StageEvent): boolean => {
      const event = shorten(given);
      const item = { at, attempt, event, bytes: JSON.stringify(event).length };
      const before = leftOut;
      push(item);
      if (bytes > limit) makeRoom(item);
      return leftOut === before;
    },
    /** The oldest, about `most` bytes of them and at least one. */
    take: (most: number): PendingEvent[] => {
      let size = 0;
      let count = 0;
      for (const item of waiting) {
        if (count > 0 && size + item.bytes > most) break;
        size += item.bytes;
        count += 1;
      }
      bytes -= size;
      return waiting.splice(0, count);
    },
    /** The store takes them again. */
    written: (): void => void (leftOut = false),
    isEmpty: (): boolean => waiting.length === 0,
  };
};
