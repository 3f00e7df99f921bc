import cliTruncate from "cli-truncate";
import stringWidth from "string-width";
import wrapAnsi from "wrap-ansi";
import type { Layout } from "./paint.ts";
import { oneLine } from "./sanitise.ts";

export { age, bytes, clock, cost, counted, duration } from "./quantities.ts";

const gap = "  ";

/** Aligned lines. With `columns` the last cell is cut to fit, never below `least`: what identifies a row stays whole. */
export const aligned = (
  rows: string[][],
  { columns = Infinity, least = 10, cutAt = "end" }: Options = {},
): string[] => {
  const widths = (rows[0] ?? [])
    .slice(0, -1)
    .map((_, index) => widthOf(rows.map((row) => row[index] ?? "")) + gap.length);
  const room = Math.max(least, columns - widths.reduce((sum, width) => sum + width, 0));
  return rows.map((row) => {
    const fixed = widths.map((width, index) => padded(row[index] ?? "", width));
    return (fixed.join("") + cut(row.at(-1) ?? "", room, cutAt)).trimEnd();
  });
};

type Options = { columns?: number | undefined; least?: number; cutAt?: "start" | "end" };

const padded = (cell: string, width: number): string =>
  cell + " ".repeat(Math.max(0, width - stringWidth(cell)));

const rightAligned = (cells: string[]): string[] => {
  const widest = widthOf(cells);
  return cells.map((cell) => " ".repeat(widest - stringWidth(cell)) + cell);
};

const widthOf = (cells: string[]): number => Math.max(0, ...cells.map((cell) => stringWidth(cell)));

/**
 * A heading and a cell for each row. `right`: aligned so. `leaves`: where there is no room, columns are left out, those
 * with the lowest number first; a column without it stays.
 */
export type Column<Row> = [
  heading: string,
  cell: (row: Row) => string,
  how?: { right?: true; leaves?: number },
];

/** A bold line of headings, then a line per row. Without a terminal, 250 columns keep a list readable. */
export const table = <Row>(
  rows: readonly Row[],
  columns: Column<Row>[],
  { paint, columns: width = 250, ...cutting }: Layout & Options,
): string[] => {
  const shown = columns.map(([heading, cell, { right, leaves = Infinity } = {}]) => {
    const column = [heading, ...rows.map(cell)];
    return { cells: right ? rightAligned(column) : column, width: widthOf(column), leaves };
  });
  for (const each of shown.toSorted((one, other) => one.leaves - other.leaves)) {
    const fixed = shown.slice(0, -1).reduce((sum, column) => sum + column.width + gap.length, 0);
    const last = Math.min(shown.at(-1)?.width ?? 0, cutting.least ?? leastOfLast);
    if (fixed + last > width && each.leaves < Infinity) shown.splice(shown.indexOf(each), 1);
  }
  const [head = "", ...lines] = aligned(
    [null, ...rows].map((_, index) => shown.map(({ cells }) => cells[index] ?? "")),
    { columns: width, ...cutting },
  );
  return [paint("bold", head), ...lines];
};

/** Columns that the last cell gets, before others are left out for it. */
const leastOfLast = 24;

/** A table with lines below it, or a sentence where there is no row. */
export const list = <Row>(
  rows: readonly Row[],
  columns: Column<Row>[],
  { empty, below = [], ...layout }: Layout & Options & { empty: string; below?: string[] },
): string =>
  [...(rows.length === 0 ? [empty] : table(rows, columns, layout)), ...quiet(below, layout)].join("\n");

/** Lines of little weight, wrapped. */
export const quiet = (lines: string[], { paint, columns = Infinity }: Layout): string[] =>
  lines.flatMap((line) => wrap(line, columns)).map((line) => paint("dim", line));

/** A labelled value; one without a value is not shown. Prose is wrapped; paths and commands never. */
export type Fact = [label: string, value: string | null, prose?: "prose"];

/** Label and value in two columns; further lines of a value are below its first. */
export const factLines = (facts: Fact[], { paint, columns = Infinity }: Layout): string[] => {
  const shown = facts.filter(
    (fact): fact is [string, string, "prose"?] => fact[1] !== null && fact[1] !== "",
  );
  const margin = Math.max(0, ...shown.map(([label]) => label.length)) + gap.length;
  const room = Math.max(20, columns - margin);
  return shown.flatMap(([label, value, prose]) =>
    value
      .split("\n")
      .flatMap((line) => (prose === undefined ? [line] : wrap(line, room)))
      .map((line, index) => (paint("dim", (index === 0 ? label : "").padEnd(margin)) + line).trimEnd()),
  );
};

export const warningsFact = (warnings: readonly string[]): Fact => [
  "Warnings",
  warnings.map((warning) => `- ${oneLine(warning)}`).join("\n"),
  "prose",
];

/** The line as rows of at most `columns`, broken at spaces where there are any. */
export const wrap = (text: string, columns: number): string[] =>
  wrapAnsi(text, columns, { hard: true, trim: false })
    .split("\n")
    .map((row, index) => (index === 0 ? row.trimEnd() : row.trim()));

/** The text, cut to at most `columns`; an ellipsis marks the cut. */
export const cut = (text: string, columns: number, position: "start" | "end" = "end"): string => {
  const short = cliTruncate(text, columns, { position });
  // The library keeps a wide character of which only the first half fits.
  return stringWidth(short) > columns ? cliTruncate(text, columns - 1, { position }) : short;
};
