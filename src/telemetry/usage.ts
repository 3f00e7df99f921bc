import { isCalled } from "../contract/repository-url.ts";
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

const where = (column: string, condition: string): string =>
  `CASE WHEN ${condition} THEN ${column} ELSE 0 END`;

const added: Record<keyof Sums, string> = {
  runs: "runs",
  succeeded: where("runs", "status = 'succeeded'"),
  failed: where("runs", "status IN ('failed', 'expired')"),
  cancelled: where("runs", "status = 'cancelled'"),
  cost_usd: where("cost_usd", "imputed = 0"),
  imputed_cost_usd: where("cost_usd", "imputed = 1"),
  estimated_cost_usd: "estimated_cost_usd",
  input_tokens: "input_tokens",
  output_tokens: "output_tokens",
  cache_creation_input_tokens: "cache_creation_tokens",
  cache_read_input_tokens: "cache_read_tokens",
  turns: "turns",
  duration_ms: "duration_ms",
};

const figures = Object.keys(added) as (keyof Sums)[];

/** Adds up the roll-up. @throws ServiceError */
export const usageOf = async (query: Query, input: UsageInput, now: Date): Promise<Usage> => {
  const { by, profile, repo_url, model, kind } = input;
  const until = input.until || dayOf(now);
  const since = input.since || dayOf(new Date(Date.parse(until) - 29 * 86_400_000));
  if (since > until)
    throw new ServiceError("invalid_request", `since: ${since} is after until, which is ${until}`);
  const filters = Object.entries({ profile, model, kind }).filter(([, value]) => value !== "");
  const urls = repo_url === "" ? null : await urlsOf(query, repo_url);
  const sums = figures.map((name) => `CAST(SUM(${added[name]}) AS double precision) AS ${name}`);
  const found = await query<Sums & { group: string }>(
    `SELECT ${columns[by]} AS "group", ${sums.join(", ")} FROM usage_daily WHERE day >= ? AND day <= ?
      ${filters.map(([name]) => `AND ${name} = ?`).join(" ")}
      ${urls === null ? "" : `AND repo_url IN (${["NULL", ...urls.map(() => "?")].join(", ")})`}
      GROUP BY ${columns[by]}`,
    [since, until, ...filters.map(([, value]) => value), ...(urls ?? [])],
  );
  const total = Object.fromEntries(
    figures.map((name) => [name, found.reduce((sum, row) => sum + row[name], 0)]),
  ) as Sums;
  const rows = found.map(withRate).toSorted(by === "day" ? orders.day : orders.cost);
  return { success: true, since, until, by, count: rows.length, rows, total: withRate(total) };
};

/** The repositories that are called so. */
const urlsOf = async (query: Query, name: string): Promise<string[]> =>
  (await query<{ repo_url: string }>("SELECT DISTINCT repo_url FROM usage_daily", []))
    .map(({ repo_url }) => repo_url)
    .filter((url) => isCalled(url, name));

const dayOf = (at: Date): string => at.toISOString().slice(0, 10);

type Grouped = Sums & { group: string };

const costOf = (row: Sums): number => row.cost_usd + row.imputed_cost_usd;

const orders = {
  day: (a: Grouped, b: Grouped) => a.group.localeCompare(b.group),
  cost: (a: Grouped, b: Grouped) =>
    costOf(b) - costOf(a) || b.runs - a.runs || a.group.localeCompare(b.group),
};

const withRate = <Row extends Sums>(row: Row): Row & Pick<UsageFigures, "success_rate"> => {
  const judged = row.succeeded + row.failed;
  return { ...row, success_rate: judged === 0 ? null : row.succeeded / judged };
};
