import type { Key } from "ink";

const named = [
  "upArrow",
  "downArrow",
  "pageUp",
  "pageDown",
  "home",
  "end",
  "return",
  "escape",
  "tab",
  "backspace",
] as const satisfies (keyof Key)[];

const characters: Record<string, string> = {
  "\r": "return",
  "\n": "return",
  "\t": "tab",
  "\b": "backspace",
  "\u007f": "backspace",
  "\u0003": "ctrl-c",
};

/**
 * The keys of one piece of input: names of `named`, `ctrl-x`, or single characters. Keys that are typed while the
 * program is busy come as one piece, as a paste does.
 */
export const keysOf = (input: string, key: Key): string[] => {
  const name = named.find((each) => key[each]) ?? (key.delete ? "backspace" : undefined);
  if (name !== undefined) return [name];
  if (key.ctrl) return [`ctrl-${input}`];
  if (key.meta) return [];
  return Array.from(input, (each) => characters[each] ?? each).filter((each) => !/^\p{Cc}$/u.test(each));
};

export const isCharacter = (key: string): boolean => /^.$/su.test(key);

export const withoutLast = (text: string): string => text.replace(/.$/su, "");
