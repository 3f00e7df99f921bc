import { createNarration } from "../view/narration.ts";
import { terminalLines } from "../view/rows.ts";
import type { Paint } from "../view/paint.ts";
import type { JobEvent } from "../contract/event.ts";

/** Older rows are dropped; `svc logs` has all. */
const most = 5000;

/**
 * A job's events as lines for a terminal of any width.
 * @param begin time of the submission, ms since the epoch
 */
export const createEventLines = (begin: number, paint: Paint) => {
  const narration = createNarration(begin);
  let rows: ReturnType<typeof narration.add> = [];
  let width = 0;
  let lines: string[] = [];
  const linesOf = (row: (typeof rows)[number]): string[] => terminalLines(row, { paint, columns: width });

  return {
    add: (event: JobEvent): void => {
      const fresh = narration.add(event);
      rows.push(...fresh);
      lines.push(...fresh.flatMap(linesOf));
      if (rows.length <= most) return;
      rows = rows.slice(-most / 2);
      lines = rows.flatMap(linesOf);
    },
    /** All lines; the last ones may be unfinished. */
    lines: (columns: number): string[] => {
      if (columns !== width) {
        width = columns;
        lines = rows.flatMap(linesOf);
      }
      const open = narration.openRow();
      return open === null ? lines : [...lines, ...linesOf(open)];
    },
  };
};
