import { busLimits, type BusEvent } from "./event-bus.ts";

/** Longest text that pieces are joined to, longest of all (JSON of such a text may be that much longer), characters. */
const longestJoined = 65_536;
const longest = 6 * longestJoined + 4096;

/** Most that waits for one completion, in events and characters. */
const most = { events: busLimits.entries, size: 4 * 1024 * 1024 };

/** How long pieces of thinking and text gather before they become an event, ms. */
export const gathering = 200;

/** Events of one completion that wait to be written, joined where they are pieces of one text. Bounded: the oldest go first. */
export const createPendingBusEvents = () => {
  let waiting: BusEvent[] = [];
  let size = 0;

  const isTooMuch = (): boolean => waiting.length > 1 && (waiting.length > most.events || size > most.size);

  return {
    /** False when something had to be left out. */
    add: (given: BusEvent): boolean => {
      const last = waiting.at(-1);
      if (last !== undefined && isPieceOf(last, given)) {
        last.content += given.content;
        size += given.content.length;
      } else {
        const event = { ...given, content: cut(given.content) };
        waiting.push(event);
        size += event.content.length;
      }
      let kept = true;
      while (isTooMuch()) {
        size -= waiting.shift()?.content.length ?? 0;
        kept = false;
      }
      return kept;
    },
    take: (): BusEvent[] => {
      const events = waiting;
      waiting = [];
      size = 0;
      return events;
    },
    isEmpty: (): boolean => waiting.length === 0,
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
