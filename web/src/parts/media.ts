import { useCallback, useSyncExternalStore } from "react";

/** Whether the window is as narrow as a phone. */
export const useIsNarrow = (): boolean => useMedia("(max-width: 44rem)");

/** Whether it is used by finger. */
export const useIsTouched = (): boolean => useMedia("(pointer: coarse)");

const useMedia = (query: string): boolean => {
  const subscribe = useCallback(
    (listener: () => void) => {
      const list = matchMedia(query);
      list.addEventListener("change", listener);
      return () => list.removeEventListener("change", listener);
    },
    [query],
  );
  return useSyncExternalStore(subscribe, () => matchMedia(query).matches);
};
