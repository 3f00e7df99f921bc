import type { Budget, UsageAnswer, UsageFigures, UsageInput } from "../../contract/usage.ts";
import { connect } from "../connect.ts";
import type { ExitCode } from "../failure.ts";
import { printAnswer } from "../print.ts";
import type { Layout } from "../../view/paint.ts";
import { cost, cut, duration, table, wrap, type Column } from "../../view/columns.ts";
import { oneLine } from "../../view/sanitise.ts";
import { fromHere } from "./input.ts";

export type UsageOptions = Partial<
  Pick<UsageInput, "by" | "since" | "until" | "profile" | "model" | "kind">
> & {
  repo?: string;
  json?: boolean;
};

/** `svc usage` */
export const usage = async ({ repo, json, ...asked }: UsageOptions): Promise<ExitCode> => {
  const body = await connect().client.get_usage({
    ...asked,
    ...(repo !== undefined && { repo_url: fromHere(repo) }),
  });
  return printAnswer(body, json, usagePage);
};

/** A line per row, then the total. */
export const usagePage = (body: UsageAnswer, { paint, columns }: Layout): string => {
  const { since, until, by, rows, total } = body;
  const period = `${since} to ${until}`;
  const limits = body.budgets.map(budgetLine);
  if (rows.length === 0) return [`No runs from ${period}`, ...limits].join("\n");
  const isWide = columns === undefined || columns >= wideColumns;
  const label = columns === undefined ? Infinity : Math.max(10, Math.floor(columns / 3));
  const shown = [...rows, { ...total, group: totalLabel }];
  const figures: Column<Row>[] = [
    [
      by.toUpperCase(),
      ({ group }) => cut(oneLine(group) || "–", label, by === "repository" ? "start" : "end"),
    ],
    ["RUNS", ({ runs }) => runs.toLocaleString("en"), "right"],
    ["OK", ({ success_rate: rate }) => (rate === null ? "–" : `${Math.floor(rate * 100)} %`), "right"],
    ...(isWide ? effort : []),
    ["COST", (row) => cost(costOf(row), row.estimated_cost_usd > 0), "right"],
  ];
  const notes = [
    period,
    ...(total.imputed_cost_usd > 0
      ? [`${cost(total.imputed_cost_usd)} of the cost is imputed: the agent was logged in by subscription`]
      : []),
    ...(total.estimated_cost_usd > 0
      ? [
          `${cost(total.estimated_cost_usd, true)} of the cost is reckoned from tokens: runs ended without a result`,
        ]
      : []),
    ...limits,
  ].flatMap((line) => wrap(line, columns ?? Infinity).map((row) => paint("dim", row)));
  return [...table(shown, figures, { paint, columns: columns ?? Infinity, least: 0 }), ...notes].join("\n");
};

const budgetLine = ({ of, profile, limit_usd: limit, spent_usd: spent }: Budget): string =>
  `Budget of ${profile === null ? `the ${of}` : oneLine(profile)} today: ${cost(Math.max(0, limit - spent))} of ${cost(limit)} left`;

type Row = UsageFigures & { group: string };

/** No day, profile or key is called so: names are sanitised, and this one has a space in front. */
const totalLabel = " total";

/** Width from which tokens, turns and time are shown too. */
const wideColumns = 100;

const effort: Column<Row>[] = [
  ["TOKENS", (row) => compact.format(tokensOf(row)), "right"],
  ["TURNS", ({ turns }) => compact.format(turns), "right"],
  ["TIME", (row) => duration(row.duration_ms), "right"],
];

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const costOf = ({ cost_usd, imputed_cost_usd }: UsageFigures): number => cost_usd + imputed_cost_usd;

const tokensOf = (row: UsageFigures): number =>
  row.input_tokens + row.output_tokens + row.cache_creation_input_tokens + row.cache_read_input_tokens;
