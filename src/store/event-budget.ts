import type { AgentEvent, StageEvent } from "../contract/event.ts";

type Event = AgentEvent | StageEvent;

/** Longest text of one event that is kept, characters. */
const longestText = 65_536;

/**
 * Bounds what one job can write: past `limit` bytes thinking and text are left out, past four times that everything
 * but stages, warnings and the end. Says so once for each.
 */
export const createBudget = (limit: number) => {
  let warned = 0;

  /** Whether an event is kept when the log has `size` bytes, and what is to be said before it. */
  return (level: Level, size: number): { isKept: boolean; warning: string | null } => {
    const least = size <= limit ? 0 : size <= limit * 4 ? 1 : 2;
    const isKept = level >= least;
    if (least <= warned) return { isKept, warning: null };
    warned = least;
    const what = least === 1 ? "thinking and text" : "all but stages and the result";
    return {
      isKept,
      warning: `The event log has reached ${size} bytes: from here on ${what} is left out`,
    };
  };
};

/** 0: goes first when space is short, 2: always kept. */
type Level = 0 | 1 | 2;

export const levelOf = (event: Event): Level => {
  if (event.type === "thinking" || event.type === "text" || event.type === "block_end") return 0;
  return ["stage", "warning", "result", "exited", "started"].includes(event.type) ? 2 : 1;
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
