import { useSyncExternalStore } from "react";

/** A value outside of React that components can follow. */
export const createStore = <Value>(initial: Value) => {
  let current = initial;
  const listeners = new Set<() => void>();
  const subscribe = (listener: () => void): (() => void) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const get = (): Value => current;
  return {
    get,
    set: (value: Value): void => {
      if (Object.is(value, current)) return;
      current = value;
      for (const listener of listeners) listener();
    },
    /** Resolves when the value is one of those that are waited for. */
    until: (isWanted: (value: Value) => boolean): Promise<void> =>
      new Promise((resolve) => {
        const look = (): void => {
          if (!isWanted(current)) return;
          listeners.delete(look);
          resolve();
        };
        listeners.add(look);
        look();
      }),
    use: (): Value => useSyncExternalStore(subscribe, get),
  };
};
