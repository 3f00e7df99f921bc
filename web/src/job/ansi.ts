import { sanitise } from "../../../src/cli/text/sanitise.ts";

/** A piece of a command's output. `style`: CSS classes such as `bold ansi-1`; empty: plain. */
export type Span = { text: string; style: string };

const colourSequence = new RegExp(`${String.fromCodePoint(0x1b)}\\[([\\d;:]*)m`, "g");

/**
 * The output of a command as a terminal shows it: colours and weights as styles, overwritten progress lines only as they
 * ended, every other control sequence left out. Never markup. Linear in the length of the text.
 */
export const readAnsi = (output: string): Span[] => {
  const text = output.split("\n").map(lastWritten).join("\n");
  const spans: Span[] = [];
  let active = new Map<string, string>();
  let from = 0;
  const add = (piece: string): void => {
    const shown = sanitise(piece);
    const style = [...active.values()].join(" ");
    const last = spans.at(-1);
    if (shown === "") return;
    if (last?.style === style) last.text += shown;
    else spans.push({ text: shown, style });
  };
  for (const match of text.matchAll(colourSequence)) {
    add(text.slice(from, match.index));
    from = match.index + match[0].length;
    active = restyled(active, (match[1] ?? "").split(/[;:]/).map(Number));
  }
  add(text.slice(from));
  return spans;
};

/** A progress line begins anew after each carriage return. */
const lastWritten = (line: string): string => {
  const end = line.endsWith("\r") ? line.length - 1 : line.length;
  return line.slice(end === 0 ? 0 : line.lastIndexOf("\r", end - 1) + 1, end);
};

/** The styles after one sequence. Colours beyond the sixteen of a terminal are left out. */
const restyled = (active: Map<string, string>, codes: number[]): Map<string, string> => {
  const next = new Map(active);
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index] ?? 0;
    const [property, style] = code === 0 ? ["all", ""] : (weights[code] ?? colourOf(code));
    if (property === "all") next.clear();
    else if (style === "") next.delete(property);
    else next.set(property, style);
    // 38;5;N and 38;2;R;G;B: their arguments are no codes.
    if (code === 38 || code === 48) index += codes[index + 1] === 5 ? 2 : 4;
  }
  return next;
};

const weights: Record<number, [property: string, style: string]> = {
  1: ["weight", "bold"],
  2: ["weight", "dim"],
  22: ["weight", ""],
  3: ["slant", "italic"],
  23: ["slant", ""],
  4: ["line", "underline"],
  24: ["line", ""],
};

const colourOf = (code: number): [property: string, style: string] => {
  const [tens, digit] = [Math.floor(code / 10), code % 10];
  const property = tens === 3 || tens === 9 ? "colour" : "ground";
  if (![3, 4, 9, 10].includes(tens) || digit === 8) return ["none", ""];
  return [
    property,
    digit === 9 ? "" : `ansi${property === "ground" ? "-on" : ""}-${digit + (tens > 4 ? 8 : 0)}`,
  ];
};
