import { useCallback, useMemo } from "react";
import { useSearchParams } from "wouter";

/**
 * What the address asks for, and the function that changes some of it; "" takes a parameter out of the address. Typing
 * replaces the entry in the history.
 * @param read outside of the component; `value` is "" for a parameter that is not there
 */
export const useAddress = <Asked>(read: (value: (name: string) => string) => Asked) => {
  const [params, setParams] = useSearchParams();
  const text = params.toString();
  const asked = useMemo(() => {
    const given = new URLSearchParams(text);
    return read((name) => given.get(name) ?? "");
  }, [text, read]);
  const change = useCallback(
    (changes: Partial<Record<string, string>>) =>
      setParams(
        (before) => {
          const next = new URLSearchParams(before);
          for (const [name, value = ""] of Object.entries(changes)) {
            if (value === "") next.delete(name);
            else next.set(name, value);
          }
          return next;
        },
        { replace: Object.keys(changes).join() === "q" },
      ),
    [setParams],
  );
  return [asked, change] as const;
};
