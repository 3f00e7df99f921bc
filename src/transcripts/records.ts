import { objectOf, parsed, type Json } from "./json.ts";

/** A whole record on a line; most lines are one. */
export type Piece = { begin: number; length: number; record: Json };

/** A longer line is not read, bytes: it is several times as large in memory. */
const longestRead = 128 * 1024 * 1024;

/** How often the bytes of a damaged line are looked at. */
const mostLooks = 8;

/**
 * The records of a line. A crash or two writers damage one: records stand in it between torn ones, other records or NULs.
 * An object that is no record belongs to a torn one. `isDamaged`: something is left over.
 */
export const recordsOf = (
  line: Buffer,
  isRecord: (record: Json) => boolean,
): { pieces: Piece[]; isDamaged: boolean } => {
  if (line.length > longestRead) return { pieces: [], isDamaged: true };
  const whole = parsed(line.toString("utf8"));
  const record = objectOf(whole);
  if (record === whole) return { pieces: [{ begin: 0, length: line.length, record }], isDamaged: false };
  const pieces: Piece[] = [];
  let [read, budget, isDamaged] = [0, line.length * mostLooks, false];
  for (let begin = line.indexOf('{"'); begin >= 0 && budget > 0;) {
    const { end, isWhole } = objectAt(line, begin);
    budget -= end - begin;
    const part = isWhole ? objectOf(parsed(line.toString("utf8", begin, end))) : {};
    if (isRecord(part)) {
      pieces.push({ begin, length: end - begin, record: part });
      isDamaged ||= !isBlank(line.subarray(read, begin));
      read = end;
    }
    begin = line.indexOf('{"', isWhole ? end : begin + 1);
  }
  return { pieces, isDamaged: isDamaged || !isBlank(line.subarray(read)) };
};

const [quote, backslash, opening, closing] = [0x22, 0x5c, 0x7b, 0x7d];

/** Bytes of JSON outside of texts: punctuation, numbers, the letters of `true`, `false` and `null`, white space. */
const plain = new Set(Buffer.from('{}[]:,+-.0123456789trufalsenE \t\r"'));

/** Where the object ends, or where it is seen that it does not: texts hold no control characters. */
const objectAt = (line: Buffer, begin: number): { end: number; isWhole: boolean } => {
  let [depth, isText] = [0, false];
  for (let at = begin; at < line.length; at += 1) {
    const byte = line[at] ?? 0;
    if (isText ? byte < 0x20 : !plain.has(byte)) return { end: at, isWhole: false };
    if (isText && byte === backslash) at += 1;
    else if (byte === quote) isText = !isText;
    else if (!isText && byte === opening) depth += 1;
    else if (!isText && byte === closing && (depth -= 1) === 0) return { end: at + 1, isWhole: true };
  }
  return { end: line.length, isWhole: false };
};

const isBlank = (bytes: Buffer): boolean => bytes.every((byte) => byte <= 0x20 || byte === 0x2c);
