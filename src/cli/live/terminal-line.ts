import { clock } from "../text/duration.ts";
import type { Paint } from "../text/paint.ts";
import { cut, wrap } from "../text/width.ts";
import type { Row } from "./row.ts";

/** The row as lines that fit a terminal: text is wrapped, everything else cut to one line. */
export const terminalLines = (row: Row, { paint, columns }: { paint: Paint; columns: number }): string[] => {
  const room = Math.max(10, columns - margin);
  if (row.kind === "text" || row.kind === "thinking") {
    return wrap(row.text, room).map((line) =>
      line === ""
        ? ""
        : " ".repeat(margin) + (row.kind === "thinking" ? paint(["dim", "italic"], line) : line),
    );
  }
  const time = paint("dim", clock(row.elapsedMs).padStart(margin - 2));
  return [`${time}  ${styled[row.kind](cut(`${sign[row.kind]} ${row.text}`, room), paint)}`];
};

/** Columns of the time and the gap after it. */
const margin = 9;

const sign = { stage: "■", tool: "▸", note: "·", problem: "!" };

const styled = {
  stage: (text: string, paint: Paint) => paint("bold", text),
  tool: (text: string, paint: Paint) => paint("cyan", text),
  note: (text: string, paint: Paint) => paint("dim", text),
  problem: (text: string, paint: Paint) => paint("yellow", text),
};
