import { wrap } from "../view/columns.ts";
import { oneLine } from "../view/sanitise.ts";
import { commonKeys } from "./help.ts";
import { isCharacter, withoutLast } from "./keys.ts";
import type { Screen, Size, Ui } from "./ui.ts";

/** What a list needs to know of a row. */
type Item = {
  /** Keeps the row selected while others come and go. */
  id: string;
  /** What the filter looks at. */
  words: string;
  /** A line below the row, for so many columns. */
  detail?: ((columns: number) => string) | null;
  choose: () => void;
};

/** Rows of one kind under a heading. */
export type Section = {
  items: Item[];
  /** The heading, then a line for each of these items. */
  table: (indices: readonly number[], columns: number) => string[];
};

type Rows<Row> = {
  rows: readonly Row[];
  table: (rows: readonly Row[], columns: number) => string[];
  item: (row: Row) => Item;
};

export const section = <Row extends object>({ rows, table, item }: Rows<Row>): Section => ({
  items: rows.map(item),
  table: (indices, columns) =>
    table(
      indices.map((index) => rows[index]).filter((row) => row !== undefined),
      columns,
    ),
});

type Entry = Item & { section: Section; index: number };

/** How long a number may wait for its next digit, ms. */
const digitMs = 700;

/**
 * Numbered rows: a number or Enter chooses one, arrows move, `/word` keeps those with the words, `/` alone all. Draws no
 * more rows than there is room for.
 */
export const createList = (ui: Ui, sections: () => Section[]) => {
  let selected: string | null = null;
  let top = 0;
  let filter = "";
  /** What is being typed after `/`; null: nothing is. */
  let typing: string | null = null;
  let digits = "";
  let timer: NodeJS.Timeout | undefined;
  let shown: Entry[] = [];
  let height = 1;

  const word = (): string => (typing === null ? filter : typing);

  const entries = (): Entry[] => {
    const wanted = word().toLowerCase().split(/\s+/);
    return sections().flatMap((each) =>
      each.items
        .map((item, index) => ({ ...item, section: each, index }))
        .filter(({ words }) => wanted.every((part) => words.toLowerCase().includes(part))),
    );
  };

  const selectedIndex = (all: Entry[]): number =>
    Math.max(
      0,
      all.findIndex(({ id }) => id === selected),
    );

  const move = (to: (index: number, last: number) => number): void => {
    const all = entries();
    const index = to(selectedIndex(all), all.length - 1);
    selected = all[Math.max(0, Math.min(index, all.length - 1))]?.id ?? null;
  };

  const choose = (): void => {
    const all = entries();
    all[selectedIndex(all)]?.choose();
  };

  /** A number is chosen when no longer one begins with it, or after a while. */
  const digit = (key: string): void => {
    digits += key;
    const count = entries().length;
    const number = Number(digits);
    if (number < 1 || number > count) {
      digits = "";
      return ui.say(count === 0 ? "There is nothing to choose" : `Choose 1 to ${count}`);
    }
    move(() => number - 1);
    const take = (): void => {
      digits = "";
      choose();
    };
    if (number * 10 > count) take();
    else timer = setTimeout(take, digitMs);
  };

  const commands: Record<string, () => void> = {
    upArrow: () => move((index) => index - 1),
    downArrow: () => move((index) => index + 1),
    pageUp: () => move((index) => index - height),
    pageDown: () => move((index) => index + height),
    home: () => move(() => 0),
    end: () => move((_, last) => last),
    return: choose,
    "/": () => (typing = ""),
  };

  const type = (key: string, before: string): void => {
    if (key === "escape") typing = null;
    else if (key === "backspace") typing = before === "" ? null : withoutLast(before);
    else if (key === "return") {
      filter = before.trim();
      typing = null;
    } else if (isCharacter(key)) typing = before + key;
  };

  /** How many entries from this one on have room; a section has a heading, and a blank line before it. */
  const room = (all: Entry[], from: number, rows: number): number => {
    let used = -1;
    let count = 0;
    for (const [offset, entry] of all.slice(from, from + rows).entries()) {
      const isFirst = entry.section !== all[from + offset - 1]?.section || offset === 0;
      used += (isFirst ? 2 : 0) + (entry.detail ? 2 : 1);
      if (used > rows) break;
      count += 1;
    }
    return Math.max(1, count);
  };

  return {
    /** The rows in the window, after the last `body`. */
    shown: (): readonly Item[] => shown,
    /** Whether the window is near the end of the rows. */
    isNearEnd: (): boolean => top + 3 * height >= entries().length,
    filter: (): string => filter,
    body: ({ columns, rows }: Size): string[] => {
      height = rows;
      const all = entries();
      const at = selectedIndex(all);
      top = Math.max(0, Math.min(top, at, all.length - 1));
      while (at >= top + room(all, top, rows)) top += 1;
      shown = all.slice(top, top + room(all, top, rows));
      const digitsWide = String(all.length).length;
      const groups = Map.groupBy(shown, (entry) => entry.section);
      return [...groups].flatMap(([each, members], group) => {
        const gutter = digitsWide + 4;
        const [heading = "", ...lines] = each.table(
          members.map(({ index }) => index),
          columns - gutter,
        );
        const body = members.flatMap((entry, index) => {
          const number = shown.indexOf(entry) + top;
          const mark = `${number === at ? ">" : " "} ${String(number + 1).padStart(digitsWide)}  `;
          const line = mark + (lines[index] ?? "");
          return [
            number === at ? ui.paint("bold", line) : line,
            ...(entry.detail ? [" ".repeat(gutter) + entry.detail(columns - gutter)] : []),
          ];
        });
        return [...(group === 0 ? [] : [""]), " ".repeat(gutter) + heading, ...body];
      });
    },
    /** What is typed or filtered, for the last line; empty: nothing. */
    status: (): string => {
      if (typing !== null) return `/${typing}▏ Enter keeps the filter, Esc drops it`;
      if (digits !== "") return `${digits}▏`;
      return filter === "" ? "" : `/${filter} `;
    },
    /** Whether the key was one for the list. */
    key: (key: string): boolean => {
      clearTimeout(timer);
      if (typing !== null) {
        type(key, typing);
        return true;
      }
      if (/^\d$/.test(key)) {
        digit(key);
        return true;
      }
      digits = "";
      const command = commands[key];
      command?.();
      return command !== undefined;
    },
  };
};

export type List = ReturnType<typeof createList>;

type ListScreen = Pick<Screen, "title" | "hints" | "watch"> & {
  list: List;
  keys: Record<string, () => void>;
  /** What is wrong, a sentence each. */
  faults: () => string[];
};

/** A screen with faults above a list. */
export const listScreen = (ui: Ui, { list, keys, faults, hints, ...rest }: ListScreen): Screen => ({
  ...rest,
  body: ({ columns, rows }) => {
    const lines = faults().flatMap((fault) => wrap(`! ${oneLine(fault)}`, columns));
    const shown = lines.slice(0, Math.floor(rows / 3)).map((line) => ui.paint("yellow", line));
    return [...shown, ...list.body({ columns, rows: rows - shown.length })];
  },
  hints: () => `${list.status()}${hints()}`,
  key: (key) => {
    if (!list.key(key)) (keys[key] ?? commonKeys(ui)[key])?.();
  },
});
