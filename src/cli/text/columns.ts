import { cut, cutFront, pad, width } from "./width.ts";

/**
 * Rows of cells as aligned lines. With `columns` the last cell is cut so that the line fits, but never below
 * `least`: what identifies a row is always whole. `keep` says which part of a cut cell stays.
 */
export const aligned = (
  rows: string[][],
  { columns = Infinity, least = 10, keep = "front" }: Options = {},
): string[] => {
  const shorten = keep === "front" ? cut : cutFront;
  const widths = (rows[0] ?? []).map((_, index) => Math.max(...rows.map((row) => width(row[index] ?? ""))));
  return rows.map((row) => {
    const fixed = row.slice(0, -1).map((cell, index) => pad(cell, widths[index] ?? 0));
    const room = Math.max(least, columns - fixed.reduce((sum, cell) => sum + width(cell) + gap.length, 0));
    return [...fixed, shorten(row.at(-1) ?? "", room)].join(gap).trimEnd();
  });
};

type Options = { columns?: number; least?: number; keep?: "front" | "end" };

/** Cells of one column, with their ends under each other; the heading is one of them. */
export const rightAligned = (cells: string[]): string[] => {
  const widest = Math.max(...cells.map(width));
  return cells.map((cell) => " ".repeat(widest - width(cell)) + cell);
};

const gap = "  ";
