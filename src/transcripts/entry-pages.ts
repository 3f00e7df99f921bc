import type { Session, SessionMeta } from "../contract/transcript.ts";
import type { Detail, Entry } from "../contract/transcript-entry.ts";
import { ServiceError } from "../contract/errors.ts";
import { cutText, fitting, jsonBytes } from "./answer-size.ts";
import { redactDeep } from "../lib/redact.ts";
import type { Library } from "./library.ts";
import type { Line } from "./transcript-line.ts";

type Range = {
  from: number;
  to: number;
  since?: number | null;
  until?: number | null;
  details?: boolean;
};

/** How many entries are read at a time: a long session does not have to be in memory. */
const page = 50;

/** @throws ServiceError session_not_found */
export const knownSession = (library: Library, id: string): SessionMeta & Session => {
  const session = library.session(id);
  if (session !== null) return session;
  throw new ServiceError(
    "session_not_found",
    `There is no session ${JSON.stringify(id.slice(0, 100))}; list_sessions and search_sessions show the ids`,
  );
};

export const entryCount = (library: Library, id: string, range: Partial<Range> = {}): number =>
  library.entries(id, { offset: 0, limit: 0, since: range.since ?? null, until: range.until ?? null }).total;

/** Entries from position `from` to before `to`, in order. */
export function* entriesFrom(library: Library, id: string, range: Range): Generator<Entry, void> {
  const { since = null, until = null, details = false, to } = range;
  for (let offset = range.from; offset < to; offset += page) {
    const limit = Math.min(page, to - offset);
    const { items } = library.entries(id, { offset, limit, since, until, details });
    yield* items;
    if (items.length < limit) return;
  }
}

/** The same from the last one backwards. */
export function* entriesBackFrom(library: Library, id: string, { from, to }: Range): Generator<Entry, void> {
  for (let end = to; end > from; end -= page) {
    const offset = Math.max(from, end - page);
    const { items } = library.entries(id, { offset, limit: end - offset, since: null, until: null });
    yield* items.toReversed();
  }
}

export const shortenedEntry = (entry: Entry, room: number): Entry => {
  const { details } = entry;
  const rest: Entry = {
    ...entry,
    content: "",
    ...(details && { details: fitting(details, (detail) => detail, room / 2).items }),
  };
  return { ...rest, content: cutText(entry.content, room - jsonBytes(rest)) };
};

export const detailsOf = ({ thinking, calls, results }: Line): Detail[] => [
  ...(thinking === "" ? [] : [{ kind: "thinking" as const, text: thinking }]),
  ...calls.map(({ id, name, input }) => ({ kind: "call" as const, call_id: id, name, input })),
  ...results.map(({ id, text, isError }) => ({
    kind: "result" as const,
    call_id: id,
    text,
    is_error: isError,
  })),
];

/** How much of a text in the details is given, and of an input, bytes. */
const [textBytes, inputBytes] = [4000, 12_000];

/** The entry with details of a size of which an answer can have several. */
export const boundedEntry = (entry: Entry): Entry =>
  entry.details === undefined ? entry : { ...entry, details: entry.details.map(bounded) };

const bounded = (detail: Detail): Detail => {
  if (detail.kind !== "call") return { ...detail, text: cutText(detail.text, textBytes) };
  const input = redactDeep(detail.input, (text) => cutText(text, textBytes));
  const isLong = jsonBytes(input) > inputBytes;
  return { ...detail, input: isLong ? cutText(JSON.stringify(input), inputBytes) : input };
};
