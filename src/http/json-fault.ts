/**
 * Where a text that `JSON.parse` refused stops being JSON, as "line 2, column 7". The engine's own message names the
 * place only for some faults. One pass, no recursion: it is used on whatever callers send.
 */
export const jsonFaultPlace = (text: string): string => {
  const before = text.slice(0, faultOffset(text)).split("\n");
  return `line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`;
};

/** What may come next. The `first …` may also be the end of what has just been opened. */
type Expected = "value" | "first item" | "key" | "first key" | "colon" | "separator";

type Position = {
  text: string;
  at: number;
  expected: Expected;
  /** What ends each array and object that is open, the innermost last. */
  closers: string[];
};

type Next = Pick<Position, "at" | "expected">;

const space = /[ \t\r\n]*/y;
const string = /"[ !#-[\]-\uffff]*(?:\\(?:["\\/bfnrt]|u[\da-fA-F]{4})[ !#-[\]-\uffff]*)*"/y;
const scalar = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

const faultOffset = (text: string): number => {
  const position: Position = { text, at: end(space, text, 0), expected: "value", closers: [] };
  while (position.at < text.length) {
    const next = closed(position) ?? opened(position) ?? punctuated(position) ?? scanned(position);
    if (next === undefined) return position.at;
    position.expected = next.expected;
    position.at = end(space, text, next.at);
  }
  return text.length;
};

const closed = ({ text, at, expected, closers }: Position): Next | undefined => {
  const mayClose = expected === "separator" || expected === "first item" || expected === "first key";
  if (!mayClose || text[at] !== closers.at(-1)) return undefined;
  closers.pop();
  return { at: at + 1, expected: "separator" };
};

const opened = ({ text, at, expected, closers }: Position): Next | undefined => {
  if (expected !== "value" && expected !== "first item") return undefined;
  const isObject = text[at] === "{";
  if (!isObject && text[at] !== "[") return undefined;
  closers.push(isObject ? "}" : "]");
  return { at: at + 1, expected: isObject ? "first key" : "first item" };
};

const punctuated = ({ text, at, expected, closers }: Position): Next | undefined => {
  if (expected === "colon" && text[at] === ":") return { at: at + 1, expected: "value" };
  if (expected !== "separator" || text[at] !== "," || closers.length === 0) return undefined;
  return { at: at + 1, expected: closers.at(-1) === "}" ? "key" : "value" };
};

const scanned = ({ text, at, expected }: Position): Next | undefined => {
  if (expected === "colon" || expected === "separator") return undefined;
  const isKey = expected === "key" || expected === "first key";
  const stop = end(isKey || text[at] === '"' ? string : scalar, text, at);
  return stop === at ? undefined : { at: stop, expected: isKey ? "colon" : "separator" };
};

/** End of `pattern` at `at`; `at` itself when it does not match there. */
const end = (pattern: RegExp, text: string, at: number): number => {
  pattern.lastIndex = at;
  return pattern.test(text) ? pattern.lastIndex : at;
};
