import type { IndexEntry, Position } from "./records.ts";

type Listed = { at: number; id: string; value: unknown };

/** Indexes by name, each a list sorted by time, then id. Adding the newest is O(1). */
export const createMemoryIndex = () => {
  const lists = new Map<string, Listed[]>();

  const add = (id: string, { index, at, value }: IndexEntry): void => {
    const list = lists.get(index.name) ?? [];
    lists.set(index.name, list);
    const last = list.at(-1);
    if (last === undefined || isBefore(last, { at, id })) list.push({ at, id, value });
    else list.splice(find(list, { at, id }), 0, { at, id, value });
  };

  const drop = (id: string, { index, at }: IndexEntry): void => {
    const list = lists.get(index.name) ?? [];
    const place = find(list, { at, id });
    if (list[place]?.id === id) list.splice(place, 1);
    if (list.length === 0) lists.delete(index.name);
  };

  return {
    /** A record has these entries in place of those. */
    replace: (id: string, before: readonly IndexEntry[], after: readonly IndexEntry[]): void => {
      for (const entry of before) drop(id, entry);
      for (const entry of after) if (Number.isFinite(entry.at)) add(id, entry);
    },
    list: (name: string): readonly Listed[] => lists.get(name) ?? [],
    /** How many stand before a position. */
    placeOf: (name: string, { created, id }: Position): number =>
      find(lists.get(name) ?? [], { at: created, id }),
  };
};

type Key = { at: number; id: string };

const isBefore = (a: Key, b: Key): boolean => a.at < b.at || (a.at === b.at && a.id < b.id);

/** Index of the first element that is not before `key`. */
const find = (list: readonly Key[], key: Key): number => {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (isBefore(list[middle] as Key, key)) low = middle + 1;
    else high = middle;
  }
  return low;
};
