import type { UsageInput } from "../../../src/contract/usage.ts";
import { useAddress } from "../parts/address.ts";

export const groups = ["profile", "repository", "model", "kind", "key"] as const;

/** The parameter that narrows the figures to a row of a group. */
export const filterOf = { profile: "profile", repository: "repo_url", model: "model", kind: "kind" } as const;

export const periods = [7, 30, 90, 365] as const;

/** What the page shows, as the address has it. `days`: the last ones, until today; 0: from `since` until `until`. */
export type Asked = Pick<UsageInput, "since" | "until" | "profile" | "repo_url" | "model" | "kind"> & {
  by: (typeof groups)[number];
  days: number;
};

const read = (value: (name: string) => string): Asked => {
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
};

export const useAsked = () => useAddress(read);

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
