/** Answers stay under the 25,000 tokens that clients accept: at least three bytes of JSON to a token. */
export const answerBytes = 72_000;

export const jsonBytes = (value: unknown): number => Buffer.byteLength(JSON.stringify(value));

/**
 * The first items, as many as fit into the room. The first one is shortened if it is too long by itself.
 * @returns `cut`: something was left out
 */
export const fitting = <Item>(
  items: Iterable<Item>,
  shorten: (item: Item, room: number) => Item,
  room: number,
): { items: Item[]; cut: boolean } => {
  const fit: Item[] = [];
  let left = room;
  for (const item of items) {
    left -= jsonBytes(item) + 1;
    if (left < 0 && fit.length > 0) return { items: fit, cut: true };
    if (left < 0) return { items: [shorten(item, room)], cut: true };
    fit.push(item);
  }
  return { items: fit, cut: false };
};

const markBytes = 60;

/** The beginning of the text whose JSON has at most `room` bytes. */
export const textWithin = (text: string, room: number): string => {
  let length = Math.min(text.length, Math.max(0, room));
  let bytes = jsonBytes(text.slice(0, length));
  while (length > 0 && bytes > room) {
    length = Math.min(length - 1, Math.floor((length * Math.max(0, room)) / bytes));
    bytes = jsonBytes(text.slice(0, length));
  }
  return length === text.length ? text : beginning(text, length);
};

/** The text, cut with a mark so that its JSON has at most `room` bytes. */
export const cutText = (text: string, room: number): string => {
  if (textWithin(text, room) === text) return text;
  const kept = textWithin(text, room - markBytes);
  return `${kept}\n[… cut: ${(text.length - kept.length).toLocaleString("en")} characters more …]`;
};

/** At most that many characters, the last of which is `…` if there are more. 0: the whole text. */
export const abridged = (text: string, characters: number): string =>
  characters === 0 || text.length <= characters ? text : `${beginning(text, characters - 1)}…`;

/** Does not split a character that has two code units. */
export const beginning = (text: string, length: number): string =>
  text.slice(0, /[\uD800-\uDBFF]/.test(text.charAt(length - 1)) ? length - 1 : length);
