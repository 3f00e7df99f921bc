/** Columns that a line of harmless text takes on a terminal. */
export const width = (text: string): number => {
  if (/^[ -~]*$/.test(text)) return text.length;
  let columns = 0;
  for (const { segment } of segmenter.segment(text)) columns += widthOf(segment);
  return columns;
};

/** The text, cut to at most `columns`; a cut one ends in an ellipsis. */
export const cut = (text: string, columns: number): string => {
  if (width(text) <= columns) return text;
  return `${split(text, Math.max(0, columns - 1))[0].trimEnd()}…`;
};

/** The text, cut to at most `columns` from the front, where its end says most; a cut one begins with an ellipsis. */
export const cutFront = (text: string, columns: number): string => {
  if (width(text) <= columns) return text;
  const room = Math.max(0, columns - 1);
  let end = "";
  for (const { segment } of [...segmenter.segment(text)].toReversed()) {
    if (width(segment + end) > room) break;
    end = segment + end;
  }
  return `…${end.trimStart()}`;
};

/** The text, filled with spaces to `columns`. */
export const pad = (text: string, columns: number): string =>
  text + " ".repeat(Math.max(0, columns - width(text)));

/** The text as rows of at most `columns`, broken at spaces where there are any. */
export const wrap = (text: string, columns: number): string[] => {
  const rows: string[] = [];
  let rest = text;
  while (width(rest) > columns) {
    const [head] = split(rest, columns);
    const space = head.lastIndexOf(" ");
    const end = space > head.length / 2 ? space : head.length;
    rows.push(rest.slice(0, end).trimEnd());
    rest = rest.slice(end).replace(/^ /, "");
  }
  return [...rows, rest];
};

/** The longest beginning that fits (one character at least, so that a wrap always gets on), and the rest. */
const split = (text: string, columns: number): [head: string, rest: string] => {
  let used = 0;
  for (const { segment, index } of segmenter.segment(text)) {
    used += widthOf(segment);
    if (used > columns && index > 0) return [text.slice(0, index), text.slice(index)];
  }
  return [text, ""];
};

const segmenter = new Intl.Segmenter();

const widthOf = (grapheme: string): number => {
  if (invisible.test(grapheme)) return 0;
  return wide.test(grapheme) ? 2 : 1;
};

const invisible = /^[\p{Default_Ignorable_Code_Point}\p{Mark}\p{Cc}]+$/v;

// East Asian wide and full-width blocks, and what is drawn as an emoji.
const wide =
  /[\p{Emoji_Presentation}\u{FE0F}\u{1100}-\u{115F}\u{2E80}-\u{303E}\u{3041}-\u{A4CF}\u{A960}-\u{A97F}\u{AC00}-\u{D7A3}\u{F900}-\u{FAFF}\u{FE30}-\u{FE6F}\u{FF01}-\u{FF60}\u{FFE0}-\u{FFE6}\u{1F300}-\u{1F64F}\u{1F900}-\u{1F9FF}\u{20000}-\u{3FFFD}]/v;
