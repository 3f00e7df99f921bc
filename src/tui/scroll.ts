/** A window over lines that are more than the screen has. */
export type Scroll = {
  /** The lines in the window. */
  view: (lines: readonly string[], rows: number) => string[];
  /** Whether the key was one for scrolling. */
  key: (key: string) => boolean;
  /** `12-30 of 400`; with `following` where it is so. */
  position: () => string;
};

/** @param following begins at the end, and stays there as lines are added */
export const createScroll = ({ following = false } = {}): Scroll => {
  let top = 0;
  let height = 1;
  let count = 0;
  const last = (): number => Math.max(0, count - height);
  const moves: Record<string, () => number> = {
    upArrow: () => top - 1,
    downArrow: () => top + 1,
    pageUp: () => top - height,
    pageDown: () => top + height,
    " ": () => top + height,
    home: () => 0,
    end: last,
    f: last,
  };
  return {
    view: (lines, rows) => {
      height = rows;
      count = lines.length;
      top = following ? last() : Math.min(top, last());
      return lines.slice(top, top + rows);
    },
    key: (key) => {
      const move = moves[key];
      if (move === undefined) return false;
      top = Math.max(0, Math.min(move(), last()));
      following = key === "f" || key === "end";
      return true;
    },
    position: () => {
      const range = `${Math.min(count, top + 1)}-${Math.min(count, top + height)} of ${count}`;
      return following ? `${range}, following` : range;
    },
  };
};
