import { cut, wrap } from "./columns.ts";
import type { Row } from "./narration.ts";
import type { Paint } from "./paint.ts";
import { clock } from "./quantities.ts";

const bar = "│ ";

/** The row as lines for a terminal. The agent's words are the loudest: plain, and wrapped. Stages are the quietest. */
export const terminalLines = (row: Row, { paint, columns }: { paint: Paint; columns: number }): string[] => {
  const { kind, text } = row;
  if (kind === "text") return wrap(text, columns);
  if (kind === "thinking")
    return wrap(text, columns - bar.length).map((line) =>
      paint(["dim", "italic"], `${bar}${line}`.trimEnd()),
    );
  if (kind === "tool") return [paint("cyan", cut(`● ${text}`, columns))];
  if (kind === "result") return wrap(text, columns - 2).map((line) => paint("dim", `  ${line}`));
  if (kind === "problem")
    return wrap(text, columns - 2).map((line, index) =>
      paint("yellow", `${index === 0 ? "!" : " "} ${line}`),
    );
  return [paint("dim", cut(`${clock(row.elapsedMs).padStart(6)}  ${text}`, columns))];
};

/** Rows as lines for a terminal, with an empty line between blocks of one kind. */
export const createBlocks = (layout: () => { paint: Paint; columns: number }) => {
  let before: { block: string; line: string } | undefined;
  const linesOf = (row: Row): string[] => {
    const isNew = before !== undefined && before.block !== blockOf[row.kind] && before.line !== "";
    return [...(isNew ? [""] : []), ...terminalLines(row, layout())];
  };
  return {
    /** The lines of a row that may grow. */
    open: linesOf,
    add: (row: Row): string[] => {
      const lines = linesOf(row);
      before = { block: blockOf[row.kind], line: lines.at(-1) ?? "" };
      return lines;
    },
  };
};

const blockOf: Record<Row["kind"], string> = {
  stage: "progress",
  note: "progress",
  problem: "progress",
  tool: "tools",
  result: "tools",
  text: "text",
  thinking: "thinking",
};

/** The row as one line of a file or a pipe: time, kind and text in columns. */
export const plainLine = ({ kind, elapsedMs, text }: Row, paint: Paint): string => {
  const time = clock(elapsedMs).padStart(7);
  const shown = kind === "text" ? text : cut(text, 200);
  return `${paint("dim", time)}  ${kind.padEnd(7)}  ${kind === "problem" ? paint("yellow", shown) : shown}`.trimEnd();
};
