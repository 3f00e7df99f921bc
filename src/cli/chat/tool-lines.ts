import type { Paint } from "../text/paint.ts";
import { sanitise } from "../text/sanitise.ts";
import { toolCall } from "../text/tool-call.ts";
import { cut } from "../text/width.ts";

/** `columns` undefined: there is no terminal, nothing is cut to its width. */
type Layout = { paint: Paint; columns: number | undefined };

/** A call in few words, for its own line and to name it again. */
export const callLabel = (name: string, input: string): string => toolCall(name, parsed(input), null);

export const callLine = (label: string, { paint, columns }: Layout): string =>
  paint("cyan", fit(`● ${label}`, columns));

type Result = {
  text: string;
  isError: boolean;
  /** Of the call, where that is not the line above; null: it is. */
  label: string | null;
  /** All lines instead of the first ones. */
  full: boolean;
};

/** A result as indented lines; `whole`: its harmless text, where that is more than the lines. */
export const resultLines = (
  { text, isError, label, full }: Result,
  { paint, columns }: Layout,
): { lines: string[]; whole: string | null } => {
  const harmless = sanitise(text).trimEnd();
  const all = (harmless === "" ? "(nothing)" : harmless).split("\n");
  const shown = full ? all : all.slice(0, most).map((line) => line.slice(0, longest));
  const left = all.length - shown.length;
  const room = full ? undefined : columns;
  const rows = [
    ...(label === null ? [] : [`of ${label}`]),
    ...shown,
    ...(left === 0 ? [] : [`… ${left.toLocaleString("en")} more ${left === 1 ? "line" : "lines"}`]),
  ];
  const lines = rows.map((row, index) =>
    paint(isError ? "red" : "dim", fit((index === 0 ? mark : indent) + row, room)),
  );
  const isCut = shown.some(
    (line, index) => line !== all[index] || fit(indent + line, room) !== indent + line,
  );
  return { lines, whole: left > 0 || isCut ? harmless : null };
};

const mark = "  ⎿ ";
const indent = "    ";

/** Lines of a result. */
const most = 6;

/** Characters of a line: results may be one line of megabytes. */
const longest = 2000;

const fit = (line: string, columns: number | undefined): string =>
  columns === undefined ? line : cut(line, Math.max(20, columns));

const parsed = (input: string): unknown => {
  try {
    return JSON.parse(input);
  } catch {
    return input;
  }
};
