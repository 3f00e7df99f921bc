import { sanitise } from "../text/sanitise.ts";

/** `sanitise` for text that comes in pieces: what a piece may have begun is held back until it is seen whole. */
export type LiveSanitiser = {
  /** As much as can be shown now. */
  push: (piece: string) => string;
  /** What is left. Afterwards the next text may begin. */
  end: () => string;
};

export const createLiveSanitiser = (): LiveSanitiser => {
  let held = "";
  /** `\r` when that was shown as a line break: a `\n` that follows belongs to it. */
  let before = "";

  const show = (text: string): string => {
    const shown = sanitise(before + text);
    const fresh = shown.slice(before.length);
    before = shown.endsWith("\n") && sanitise(`${before}${text}\n`).length === shown.length ? "\r" : "";
    return fresh;
  };

  return {
    push: (piece) => {
      const text = held + piece;
      const open = text.search(unfinished);
      // Nobody writes an escape sequence of this length but to have text held back.
      const end = open === -1 || text.length - open > longest ? text.length : open;
      held = text.slice(end);
      return show(text.slice(0, end));
    },
    end: () => {
      const rest = show(held);
      held = "";
      before = "";
      return rest;
    },
  };
};

const longest = 4096;

const escape = String.fromCodePoint(0x1b);
const bell = String.fromCodePoint(0x07);

// An escape sequence that lacks its end, or the first half of a character outside the basic plane. No alternative
// reaches over more than one further escape character: that keeps the search linear.
const unfinished = new RegExp(
  [
    `${escape}\\[[0-?]*[ -/]*$`,
    `${escape}[\\]PX^_][^${escape}${bell}]*${escape}?$`,
    `${escape}[ -/]*$`,
    "[\\uD800-\\uDBFF]$",
  ].join("|"),
);
