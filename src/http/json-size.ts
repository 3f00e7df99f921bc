import { ServiceError } from "../contract/errors.ts";

const maxDepth = 100;
/** Items of an array; a key and its value count as two. */
const maxInOne = 10_000;

/**
 * Refuses JSON that is nested deeply or has very many values, before anything is made of it: parsing and checking take
 * time for each value and hold up everybody else. Whether it is JSON at all is for the parser to say.
 * @throws ServiceError invalid_request
 */
export const checkJsonSize = (json: Uint8Array, maxValues: number): void => {
  /** Of each array and object that is open, the innermost last. */
  const counts = new Uint32Array(maxDepth + 1);
  let depth = 0;
  let values = 0;
  for (let at = 0; at < json.length; at += 1) {
    const byte = json[at];
    if (byte === quote) at = stringEnd(json, at);
    else if (byte === openBracket || byte === openBrace) {
      values += 1;
      depth += 1;
      if (depth > maxDepth) throw tooBig(`is nested more than ${maxDepth} levels deep`);
      counts[depth] = 0;
    } else if (byte === closeBracket || byte === closeBrace) depth = Math.max(0, depth - 1);
    else if (byte === comma || byte === colon) {
      values += 1;
      const count = (counts[depth] ?? 0) + 1;
      if (count > maxInOne) throw tooBig(`has more than ${shown(maxInOne)} items in one array or object`);
      counts[depth] = count;
    }
    if (values > maxValues) throw tooBig(`has more than ${shown(maxValues)} values`);
  }
};

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a];
const [openBracket, closeBracket, openBrace, closeBrace] = [0x5b, 0x5d, 0x7b, 0x7d];

/** Where the string ends that begins at `start`. */
const stringEnd = (json: Uint8Array, start: number): number => {
  let at = start + 1;
  while (at < json.length && json[at] !== quote) at += json[at] === backslash ? 2 : 1;
  return at;
};

const tooBig = (how: string): ServiceError =>
  new ServiceError("invalid_request", `The JSON ${how}; send less`);

const shown = (count: number): string => count.toLocaleString("en");
