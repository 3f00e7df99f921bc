import { useCallback, useMemo } from "react";
import { useSearchParams } from "wouter";
import type { UsageInput } from "../../../src/contract/usage.ts";

export const groups = ["profile", "repository", "model", "kind", "key"] as const;

/** The parameter that narrows the figures to a row of a group. */
export const filterOf = { profile: "profile", repository: "repo_url", model: "model", kind: "kind" } as const;

export const periods = [7, 30, 90, 365] as const;

/** What the page shows, as the address has it. `days`: the last ones, until today; 0: from `since` until `until`. */
export type Asked = Pick<UsageInput, "since" | "until" | "profile" | "repo_url" | "model" | "kind"> & {
  by: (typeof groups)[number];
  days: number;
};

/** What the address asks for, and the function that changes some of it; "" takes a parameter out of the address. */
export const useAsked = () => {
  const [params, setParams] = useSearchParams();
  const text = params.toString();
  const asked = useMemo((): Asked => {
    const given = new URLSearchParams(text);
    const value = (name: string): string => given.get(name) ?? "";
    const custom = { since: value("since"), until: value("until") };
    const days = periods.find((each) => String(each) === value("days")) ?? 30;
    const isCustom = custom.since !== "" || custom.until !== "";
    return {
      ...(isCustom ? custom : { since: dayBefore(days - 1), until: dayBefore(0) }),
      days: isCustom ? 0 : days,
      by: groups.find((each) => each === value("by")) ?? "profile",
      profile: value("profile"),
      repo_url: value("repo_url"),
      model: value("model"),
      kind: (["job", "chat"] as const).find((each) => each === value("kind")) ?? "",
    };
  }, [text]);
  const change = useCallback(
    (changes: Record<string, string>) =>
      setParams((before) => {
        const next = new URLSearchParams(before);
        for (const [name, value] of Object.entries(changes)) {
          if (value === "") next.delete(name);
          else next.set(name, value);
        }
        return next;
      }),
    [setParams],
  );
  return [asked, change] as const;
};

const dayMs = 86_400_000;

/** A day of UTC, as the service counts. */
const dayBefore = (days: number): string => new Date(Date.now() - days * dayMs).toISOString().slice(0, 10);

/** Each day of a period, the last 400 of it, for which the service keeps runs. */
export const daysOf = (since: string, until: string): string[] => {
  const last = Date.parse(until);
  const first = Math.max(Date.parse(since), last - 399 * dayMs);
  const count = Math.round((last - first) / dayMs) + 1;
  return Array.from({ length: count }, (_, at) => new Date(first + at * dayMs).toISOString().slice(0, 10));
};
