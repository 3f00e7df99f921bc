import { useCallback, useMemo } from "react";
import { useSearchParams } from "wouter";

export const roles = ["user", "assistant", "system", "summary"] as const;

/** What is searched for, as the address has it. Empty: not narrowed; without words the newest sessions are listed. */
export type Asked = { q: string; project: string; role: (typeof roles)[number] | ""; since: string };

/** What the address asks for, and the function that changes some of it. Typing replaces the entry in the history. */
export const useAsked = () => {
  const [params, setParams] = useSearchParams();
  const text = params.toString();
  const asked = useMemo((): Asked => {
    const given = new URLSearchParams(text);
    const value = (name: keyof Asked): string => given.get(name) ?? "";
    const role = roles.find((each) => each === value("role")) ?? "";
    return { q: value("q"), project: value("project"), role, since: value("since") };
  }, [text]);
  const change = useCallback(
    (changes: Partial<Asked>) =>
      setParams(
        (before) => {
          const left = [...before].filter(([name]) => !(name in changes));
          return new URLSearchParams([
            ...left,
            ...Object.entries(changes).filter(([, value]) => value !== ""),
          ]);
        },
        { replace: "q" in changes },
      ),
    [setParams],
  );
  return [asked, change] as const;
};
