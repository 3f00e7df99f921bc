import { cut, wrap } from "./columns.ts";
import type { Row } from "./narration.ts";
import type { Format, Paint } from "./paint.ts";
import { clock } from "./quantities.ts";

/** How commands that show an agent at work mark what it thinks and does. */
export const bar = "│ ";
export const thought: Format = ["dim", "italic"];
export const call = "●";

/**
 * The row as lines for a terminal. The agent's words are the loudest: plain, and wrapped. Stages are the quietest, and the
 * only rows with a time.
 */
export const terminalLines = (row: Row, { paint, columns }: { paint: Paint; columns: number }): string[] => {
  const { kind, text } = row;
  if (kind === "text") return wrap(text, columns);
  if (kind === "thinking")
    return wrap(text, columns - bar.length).map((line) => paint(thought, `${bar}${line}`.trimEnd()));
  if (kind === "tool") return [paint("cyan", cut(`${call} ${text}`, columns))];
  if (kind === "problem")
    return wrap(text, columns - 2).map((line, index) =>
      paint("yellow", `${index === 0 ? "!" : " "} ${line}`),
    );
  return [paint("dim", cut(`${clock(row.elapsedMs).padStart(6)}  ${text}`, columns))];
};

/** The row as one line of a file or a pipe: time, kind and text in columns. */
export const plainLine = ({ kind, elapsedMs, text }: Row, paint: Paint): string => {
  const time = clock(elapsedMs).padStart(7);
  const shown = kind === "text" ? text : cut(text, 200);
  return `${paint("dim", time)}  ${kind.padEnd(7)}  ${kind === "problem" ? paint("yellow", shown) : shown}`.trimEnd();
};
