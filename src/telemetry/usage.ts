import { ServiceError } from "../contract/errors.ts";
import type { Usage, UsageFigures, UsageInput } from "../contract/usage.ts";
import type { Query } from "./database.ts";

const columns = {
  day: "day",
  profile: "profile",
  repository: "repo_url",
  model: "model",
  key: "principal",
  kind: "kind",
} as const;

type Sums = Omit<UsageFigures, "success_rate">;

const sum = (name: keyof Sums, column: string, where?: string): string => {
  const value = where === undefined ? column : `CASE WHEN ${where} THEN ${column} ELSE 0 END`;
  return `CAST(SUM(${value}) AS double precision) AS ${name}`;
};

const sums = [
  sum("runs", "runs"),
  sum("succeeded", "runs", "status = 'succeeded'"),
  sum("failed", "runs", "status IN ('failed', 'expired')"),
  sum("cancelled", "runs", "status = 'cancelled'"),
  sum("cost_usd", "cost_usd", "imputed = 0"),
  sum("imputed_cost_usd", "cost_usd", "imputed = 1"),
  sum("estimated_cost_usd", "estimated_cost_usd"),
  sum("input_tokens", "input_tokens"),
  sum("output_tokens", "output_tokens"),
  sum("cache_creation_input_tokens", "cache_creation_tokens"),
  sum("cache_read_input_tokens", "cache_read_tokens"),
  sum("turns", "turns"),
  sum("duration_ms", "duration_ms"),
].join(", ");

type Read = <Result>(work: (query: Query) => Promise<Result>) => Promise<Result>;

/** Adds up the roll-up. @throws ServiceError */
export const usageOf = async (read: Read, input: UsageInput, now: Date): Promise<Usage> => {
  const until = input.until || dayOf(now);
  const since = input.since || dayOf(new Date(Date.parse(until) - 29 * day));
  if (since > until)
    throw new ServiceError("invalid_request", `since: ${since} is after until, which is ${until}`);
  const { by, profile, repo_url, model, kind } = input;
  const filters = Object.entries({ profile, repo_url, model, kind }).filter(([, value]) => value !== "");
  const found = new Map<string, Sums>();
  const parts = slicesOf(since, until, now).map((slice) =>
    read((query) =>
      query<Sums & { group: string }>(
        `SELECT ${columns[by]} AS "group", ${sums} FROM usage_daily WHERE day >= ? AND day <= ?
          ${filters.map(([name]) => `AND ${name} = ?`).join(" ")} GROUP BY ${columns[by]}`,
        [...slice, ...filters.map(([, value]) => value)],
      ),
    ),
  );
  for (const { group, ...more } of (await Promise.all(parts)).flat())
    found.set(group, added(found.get(group) ?? none, more));
  const rows = Array.from(found, ([group, row]) => ({ group, ...withRate(row) }));
  const total = withRate([...found.values()].reduce(added, none));
  const order = by === "day" ? orders.day : orders.cost;
  return { success: true, since, until, by, count: rows.length, rows: rows.toSorted(order), total };
};

/** The period in parts, since SQLite blocks the process while it answers. Nothing is kept for more than 400 days. */
const slicesOf = (since: string, until: string, now: Date): [string, string][] => {
  const first = Math.max(Date.parse(since), now.getTime() - 402 * day);
  const last = Math.min(Date.parse(until), now.getTime() + day);
  const slices: [string, string][] = [];
  for (let at = first; at <= last; at += 31 * day)
    slices.push([dayOf(new Date(at)), dayOf(new Date(Math.min(at + 30 * day, last)))]);
  return slices;
};

const day = 86_400_000;

const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

type Grouped = UsageFigures & { group: string };

const costOf = (row: UsageFigures): number => row.cost_usd + row.imputed_cost_usd;

const orders = {
  day: (a: Grouped, b: Grouped) => a.group.localeCompare(b.group),
  cost: (a: Grouped, b: Grouped) =>
    costOf(b) - costOf(a) || b.runs - a.runs || a.group.localeCompare(b.group),
};

const withRate = (row: Sums): UsageFigures => {
  const judged = row.succeeded + row.failed;
  return { ...row, success_rate: judged === 0 ? null : row.succeeded / judged };
};

const none: Sums = {
  runs: 0,
  succeeded: 0,
  failed: 0,
  cancelled: 0,
  cost_usd: 0,
  imputed_cost_usd: 0,
  estimated_cost_usd: 0,
  input_tokens: 0,
  output_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  turns: 0,
  duration_ms: 0,
};

const added = (one: Sums, other: Sums): Sums => {
  const both = { ...one };
  for (const name of Object.keys(none) as (keyof Sums)[]) both[name] += other[name];
  return both;
};
