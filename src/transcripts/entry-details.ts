import type { Detail, Entry } from "../contract/transcript-entry.ts";
import { redactDeep } from "../lib/redact.ts";
import { cutText, jsonBytes } from "./answer-size.ts";
import type { Line } from "./transcript-line.ts";

/** What a line has beside its content. */
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
