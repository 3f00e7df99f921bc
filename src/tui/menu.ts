import { Box, Text, useInput, useStdout, type Key } from "ink";
import { createElement as h, useEffect, useReducer, type ReactNode } from "react";
import type { Paint } from "../view/paint.ts";
import { oneLine } from "../view/sanitise.ts";

export type Entry = {
  /** Keeps the entry selected while others come and go. */
  id: string;
  line: string;
  /** The words that the filter searches. */
  words: string;
  /** One more line below it. */
  detail?: ReactNode;
  choose: () => void;
};

export type Section = { heading: string; entries: Entry[] };

type Menu = {
  paint: Paint;
  title: string;
  /** The faults, a sentence each. */
  faults: string[];
  sections: Section[];
  keys: Record<string, () => void>;
  /** The last line, for these keys. */
  hints: string;
};

type State = {
  selected: string | null;
  filter: string;
  /** Characters are added to the filter. */
  isTyping: boolean;
  digits: string;
  /** The choice of the last key: an entry, or a key of `keys`. */
  asked: { entry: Entry } | { key: string } | null;
};

/** How long a number may wait for its next digit, ms. */
const digitMs = 700;

/** Columns before an entry, for its mark and its number. */
export const gutter = 6;

/** Numbered entries: a number or Enter chooses one, arrows move, `/word` keeps those with the word, `/` alone all. */
export const Menu = ({ paint, title, faults, sections, keys, hints }: Menu): ReactNode => {
  const all = sections.flatMap(({ entries }) => entries);
  const [state, press] = useReducer((before: State, key: string) => pressed(before, key, all), {
    selected: null,
    filter: "",
    isTyping: false,
    digits: "",
    asked: null,
  });
  useInput((input, key) => keysOf(input, key).forEach(press));
  const { asked, digits, filter } = state;
  useEffect(() => {
    if (asked !== null && "entry" in asked) asked.entry.choose();
    else if (asked !== null) keys[asked.key]?.();
  }, [asked]);
  useEffect(() => {
    if (digits === "") return;
    const timer = setTimeout(() => press("return"), digitMs);
    return () => clearTimeout(timer);
  }, [digits]);

  const { stdout } = useStdout();
  const shown = matching(all, filter);
  const at = indexOf(shown, state.selected);
  // Some terminals report 0 rows. Ink redraws what fits; the last row is the cursor's.
  const room = (stdout.rows || 24) - 4 - faults.length - 2 * sections.length;
  const most = Math.max(1, Math.floor(room / (shown.some(({ detail }) => Boolean(detail)) ? 2 : 1)));
  const from = Math.max(0, Math.min(at - Math.floor(most / 2), shown.length - most));
  const inWindow = new Set(shown.slice(from, from + most));
  const status = [state.isTyping || filter !== "" ? `/${filter}${state.isTyping ? "▏" : ""}  ` : "", digits];
  return h(
    Box,
    { flexDirection: "column" },
    line(paint("bold", title)),
    ...faults.map((fault) => h(Text, { key: fault }, paint("yellow", `! ${oneLine(fault)}`))),
    ...sections.flatMap(({ heading, entries }) => {
      const rows = entries.filter((entry) => inWindow.has(entry));
      if (rows.length === 0) return [];
      return [
        line(`\n${" ".repeat(gutter)}${heading}`),
        ...rows.map((entry) => {
          const mark = entry === shown[at] ? ">" : " ";
          const text = `${mark} ${String(shown.indexOf(entry) + 1).padStart(2)}  ${entry.line}`;
          return h(
            Box,
            { key: entry.id, flexDirection: "column" },
            line(entry === shown[at] ? paint("bold", text) : text),
            entry.detail && h(Box, { height: 1, paddingLeft: gutter }, entry.detail),
          );
        }),
      ];
    }),
    line(`\n${status.join("")}${state.isTyping ? "Enter keeps the filter, Esc drops it" : hints}`),
  );
};

const line = (text: string): ReactNode => h(Text, { key: text, wrap: "truncate-end" }, text);

const matching = (entries: Entry[], filter: string): Entry[] => {
  const wanted = filter.toLowerCase().split(/\s+/);
  return entries.filter(({ words }) => wanted.every((part) => words.toLowerCase().includes(part)));
};

const indexOf = (entries: Entry[], id: string | null): number =>
  Math.max(
    0,
    entries.findIndex((entry) => entry.id === id),
  );

const pressed = (before: State, key: string, all: Entry[]): State => {
  const state = { ...before, digits: "", asked: null };
  if (state.isTyping) return typed(state, key);
  const shown = matching(all, state.filter);
  const at = indexOf(shown, state.selected);
  const select = (index: number): State => ({
    ...state,
    selected: shown[Math.max(0, Math.min(index, shown.length - 1))]?.id ?? null,
  });
  const entry = shown[at];
  if (key === "upArrow") return select(at - 1);
  if (key === "downArrow") return select(at + 1);
  if (key === "return") return entry === undefined ? state : { ...state, asked: { entry } };
  if (key === "/") return { ...state, filter: "", isTyping: true };
  if (!/^\d$/.test(key)) return { ...state, asked: { key } };
  const number = Number(before.digits + key);
  const numbered = shown[number - 1];
  if (numbered === undefined) return state;
  // Chosen when no longer number begins with it; else after a while.
  if (number * 10 > shown.length) return { ...select(number - 1), asked: { entry: numbered } };
  return { ...select(number - 1), digits: before.digits + key };
};

/** A key while the filter is typed. */
const typed = (state: State, key: string): State => {
  if (key === "return") return { ...state, isTyping: false };
  if (key === "escape") return { ...state, isTyping: false, filter: "" };
  if (key === "backspace") return { ...state, filter: state.filter.replace(/.$/su, "") };
  return /^[^\p{Cc}]$/u.test(key) ? { ...state, filter: state.filter + key } : state;
};

const named = ["upArrow", "downArrow", "return", "escape", "backspace"] as const satisfies (keyof Key)[];

/** The keys of one piece of input: keys typed while the program is busy come as one piece. */
const keysOf = (input: string, key: Key): string[] => {
  const name = key.delete ? "backspace" : named.find((each) => key[each]);
  if (name !== undefined) return [name];
  if (key.ctrl) return [`ctrl-${input}`];
  return Array.from(input, (each) => (each === "\r" ? "return" : each === "\u0003" ? "ctrl-c" : each));
};
