export type Item<Value> = {
  value: Value;
  size: number;
  /** Those of level 0 go first when space is short, then those of level 1, then the oldest. */
  level: 0 | 1 | 2;
};

type Options<Value> = {
  /** Most that waits, in items and by their sizes together. */
  most: { items: number; size: number };
  /** Called when something is left out for a newer item, the first time since `written`. */
  onLeftOut: (newer: Item<Value>) => void;
};

/** What waits to be written, within bounds. */
export const createBacklog = <Value>({ most, onLeftOut }: Options<Value>) => {
  let waiting: Item<Value>[] = [];
  let size = 0;
  let isShort = false;

  const isTooMuch = (): boolean => waiting.length > 1 && (waiting.length > most.items || size > most.size);

  const makeRoom = (newer: Item<Value>): void => {
    for (const lowest of [0, 1]) {
      if (!isTooMuch()) continue;
      waiting = waiting.filter(({ level }) => level > lowest);
      size = waiting.reduce((sum, item) => sum + item.size, 0);
    }
    while (isTooMuch()) size -= waiting.shift()?.size ?? 0;
    if (isShort) return;
    isShort = true;
    onLeftOut(newer);
  };

  return {
    add: (item: Item<Value>): void => {
      waiting.push(item);
      size += item.size;
      if (isTooMuch()) makeRoom(item);
    },
    /** Takes the newest back. */
    pop: (): Item<Value> | undefined => {
      const item = waiting.pop();
      size -= item?.size ?? 0;
      return item;
    },
    /** The oldest, of about that size together and at least one. */
    take: (limit: number): Item<Value>[] => {
      let taken = 0;
      const end = waiting.findIndex((item, at) => (taken += item.size) > limit && at > 0);
      const items = waiting.splice(0, end === -1 ? waiting.length : end);
      size -= items.reduce((sum, item) => sum + item.size, 0);
      return items;
    },
    isEmpty: (): boolean => waiting.length === 0,
    written: (): void => void (isShort = false),
  };
};
