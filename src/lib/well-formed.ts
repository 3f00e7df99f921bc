import { redactDeep } from "./redact.ts";

/** The text with U+FFFD for each half of a surrogate pair and each NUL: strict readers of JSON refuse both. */
export const wellFormed = (text: string): string => text.toWellFormed().replaceAll("\0", "\uFFFD");

const escapes = /\\u(?:0000|d[89a-f])/i;

/** Parses JSON of another program; its texts are well-formed. @throws SyntaxError */
export const parseJson = (text: string): unknown => {
  const value = JSON.parse(text) as unknown;
  return escapes.test(text) ? redactDeep(value, wellFormed) : value;
};

/** JSON of which every text is well-formed. */
export const toJson = (value: unknown, space?: number): string =>
  wellFormedJson(JSON.stringify(value, null, space));

/** The same for what `JSON.stringify` has written: it escapes halves of a pair, never whole pairs. */
export const wellFormedJson = (json: string): string =>
  escapes.test(json)
    ? json.replaceAll(/(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})/g, "$1\uFFFD")
    : json;
