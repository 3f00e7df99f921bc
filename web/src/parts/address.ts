import { useSearchParams } from "wouter";

/**
 * What the address asks for by these names, "" where it does not, and the function that changes some of it. Typing
 * replaces the entry in the history.
 */
export const useAddress = <Name extends string>(names: readonly Name[]) => {
  const [params, setParams] = useSearchParams();
  const asked = Object.fromEntries(names.map((name) => [name, params.get(name) ?? ""])) as Record<
    Name,
    string
  >;
  const change = (changes: Partial<Record<Name, string>>): void =>
    setParams(
      (before) => {
        const kept = Object.entries({ ...Object.fromEntries(before), ...changes });
        return new URLSearchParams(kept.filter((entry): entry is [string, string] => Boolean(entry[1])));
      },
      { replace: Object.keys(changes).join() === "q" },
    );
  return [asked, change] as const;
};
