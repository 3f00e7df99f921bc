import { clock, wrap } from "../view/columns.ts";
import { isBug } from "../cli/failure.ts";
import { sanitise } from "../view/sanitise.ts";
import { createScroll } from "./scroll.ts";
import type { Screen, Ui } from "./ui.ts";

type Text = {
  title: string;
  /** Called once. Its text is safe for a terminal; the signal aborts when the user leaves. */
  load: (signal: AbortSignal) => string | Promise<string>;
};

/** A text to read, and until it is there how long that takes. */
export const textScreen = (ui: Ui, { title, load }: Text): Screen => {
  const scroll = createScroll();
  const begin = performance.now();
  let text: string | null = null;
  let wrapped: { columns: number; lines: string[] } | null = null;
  const lines = (columns: number): string[] => {
    if (text === null) return [`… ${clock(performance.now() - begin)}`];
    if (wrapped?.columns !== columns)
      wrapped = { columns, lines: text.split("\n").flatMap((line) => fitted(line, columns)) };
    return wrapped.lines;
  };
  return {
    title: () => title,
    body: ({ columns, rows }) => scroll.view(lines(columns), rows),
    hints: () => `${text === null ? "" : `${scroll.position()}  `}↑↓ scroll  Esc back`,
    key: (key) => {
      if (!scroll.key(key) && leaves.includes(key)) ui.back();
    },
    watch: async (signal) => {
      if (text !== null) return;
      const ticking = setInterval(ui.redraw, 1000);
      try {
        text = await load(signal);
      } catch (error) {
        if (signal.aborted || isBug(error)) throw error;
        text = ui.paint("yellow", sanitise(error instanceof Error ? error.message : String(error)));
      } finally {
        clearInterval(ticking);
      }
      ui.redraw();
    },
  };
};

/** Keys that lead back to the screen before. */
export const leaves = ["escape", "q", "return", "backspace"];

/** Wrapping is slow: most lines need none. */
const fitted = (line: string, columns: number): string[] =>
  line.length * 2 <= columns ? [line] : wrap(line, columns);
