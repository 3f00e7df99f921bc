import type { AgentEvent, StageEvent } from "../contract/event.ts";
import type { Item } from "./backlog.ts";

type Event = AgentEvent | StageEvent;

/** Longest text of one event that is kept, characters. */
const longestText = 65_536;

/** An event of a job, as JSON without its number, that waits to be written. Comes with texts of a bounded length. */
export const waitingEvent = (at: string, attempt: number, event: Event): Item<string> => {
  const value = JSON.stringify({ at, attempt, ...shorten(event) });
  return { value, size: value.length, level: levelOf(event) };
};

/** A warning that belongs to another event of the job. */
export const warningBeside = (event: string, message: string): Item<string> => {
  const { at, attempt } = JSON.parse(event) as { at: string; attempt: number };
  return waitingEvent(at, attempt, { type: "warning", message });
};

/**
 * Bounds what one job can write: past `limit` bytes thinking and text are left out, past four times that everything
 * but stages, warnings and the end. Says so once for each.
 */
export const createBudget = (limit: number) => {
  let warned = 0;

  /** What is to be written of the events when the log has `before` bytes. */
  return (events: readonly Item<string>[], before: number): string[] => {
    let size = before;
    return events.flatMap(({ value, level }) => {
      const least = size <= limit ? 0 : size <= limit * 4 ? 1 : 2;
      const kept = level >= least ? [value] : [];
      if (least > warned) {
        warned = least;
        const what = least === 1 ? "thinking and text" : "all but stages and the result";
        const message = `The event log has reached ${size} bytes: from here on ${what} is left out`;
        kept.unshift(warningBeside(value, message).value);
      }
      for (const each of kept) size += Buffer.byteLength(each);
      return kept;
    });
  };
};

const levelOf = ({ type }: Event): Item<string>["level"] => {
  if (type === "thinking" || type === "text" || type === "block_end") return 0;
  return ["stage", "warning", "result", "exited", "started"].includes(type) ? 2 : 1;
};

/** The event with texts of a bounded length. */
export const shorten = (event: Event): Event => {
  if ("content" in event) return { ...event, content: cut(event.content) };
  if ("text" in event) return { ...event, text: cut(event.text) };
  if (event.type !== "tool_use") return event;
  const input = JSON.stringify(event.input) ?? "null";
  return input.length <= longestText ? event : { ...event, input: { truncated: cut(input) } };
};

const cut = (text: string): string =>
  text.length <= longestText
    ? text
    : `${text.slice(0, longestText)}\n[… ${text.length - longestText} characters left out …]`;
