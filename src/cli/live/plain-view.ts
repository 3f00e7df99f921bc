import { clock } from "../text/duration.ts";
import { painter } from "../text/paint.ts";
import type { Paint } from "../text/paint.ts";
import { cut } from "../text/width.ts";
import { createNarration } from "./narration.ts";
import type { Row } from "./row.ts";
import type { View } from "./view.ts";

/** For files and pipes: each line once, nothing is redrawn. Thinking is left out. */
export const plainView = (stream: NodeJS.WriteStream, begin: number): View => {
  const narration = createNarration(begin);
  const paint = painter(stream);
  const write = (rows: Row[]) => {
    for (const row of rows) if (row.kind !== "thinking") stream.write(`${plainLine(row, paint)}\n`);
  };
  return {
    event: (event) => write(narration.take(event)),
    note: (text) => stream.write(`${text}\n`),
    close: () => write(narration.rest()),
  };
};

/** Time, kind and text in columns. */
export const plainLine = ({ kind, elapsedMs, text }: Row, paint: Paint): string => {
  const time = clock(elapsedMs).padStart(7);
  const shown = kind === "text" ? text : cut(text, 200);
  return `${paint("dim", time)}  ${kind.padEnd(7)}  ${kind === "problem" ? paint("yellow", shown) : shown}`.trimEnd();
};
