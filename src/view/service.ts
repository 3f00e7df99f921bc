import {
  type Check,
  type Instance,
  type Overview,
  type Readiness,
  readinessText,
} from "../contract/instance.ts";
import type { Profile } from "../contract/profile.ts";
import type { Answer } from "../contract/operation.ts";
import type { Operations } from "../contract/operations.ts";
import type { Budget, UsageFigures } from "../contract/usage.ts";
import { cut, factLines, list, type Fact } from "./columns.ts";
import type { Format, Layout, Paint } from "./paint.ts";
import { age, cost, counted, duration } from "./quantities.ts";
import { oneLine } from "./sanitise.ts";

/** One line per instance, then the queue. The name is last: a narrow terminal may cut it. */
export const instanceTable = (overview: Overview, layout: Layout, now: number): string =>
  list(
    overview.instances,
    [
      ["STATE", (each) => state(each, layout)],
      ["RUNNING", (each) => `${each.running} of ${each.max_parallel_jobs}`, right],
      ["TURNS", ({ turns }) => String(turns), right],
      ["UP", (each) => age(now - Date.parse(each.started_at)), right],
      ["VERSION", ({ version }) => oneLine(version)],
      ["NAME", ({ name }) => oneLine(name)],
    ],
    { empty: "No instances", below: queueLines(overview), ...layout },
  );

const right = { right: true } as const;

const state = ({ draining }: Instance, { paint }: Layout): string =>
  draining ? paint("yellow", "draining") : paint("green", "ready");

/** Length of the queue and its workers; jobs lost with an instance only when there are any. */
export const queueLines = ({ queue, instances, lost, recovered, limits }: Overview): string[] => {
  const { waiting, running, oldest_wait_seconds: oldest } = queue;
  const longest = oldest === null ? "" : `, the oldest for ${duration(oldest * 1000)}`;
  const shares = instances.length === 0 ? "" : `: ${instances.map(share).join(", ")}`;
  return [
    `${waiting} waiting${longest}; ${running} running${shares}`,
    ...limits.map(
      ({ jobs, until, credential }) =>
        `${counted(jobs, "job")} parked until ${oneLine(until)} or later: usage limit of the credential ${oneLine(credential)}`,
    ),
    ...(lost + recovered > 0
      ? [`${counted(lost, "job")} failed with a lost instance, ${recovered} queued again after one`]
      : []),
  ];
};

const share = ({ name, running, max_parallel_jobs: most, draining }: Instance): string =>
  `${oneLine(name)} ${running} of ${most}${draining ? " (draining)" : ""}`;

/** A profile with what it does; a broken one with its fault instead. */
export const profileEntry = (profile: Profile, { paint, columns = Infinity }: Layout): string => {
  const { error, max_turns: turns } = profile;
  const broken = error !== null;
  const facts = factLines(
    [
      ["description", oneLine(profile.description), "prose"],
      ["error", broken ? paint("red", oneLine(error)) : null],
      ["model", broken ? null : oneLine(profile.model)],
      ["max_turns", broken || turns === null ? null : String(turns)],
      ["auto_pr", broken ? null : String(profile.auto_pr)],
      ["source", oneLine(profile.source)],
    ],
    { paint, columns: columns - indent.length },
  );
  return [paint("bold", oneLine(profile.name)), ...facts.map((line) => `${indent}${line}`)].join("\n");
};

const indent = "  ";

type UsageAnswer = Answer<Operations["get_usage"]>;
/** A line per row, then the total. */
export const usagePage = (body: UsageAnswer, layout: Layout): string => {
  const { since, until, by, rows, total, budgets } = body;
  const period = `${since} to ${until}`;
  const room = layout.columns === undefined ? Infinity : Math.max(10, Math.floor(layout.columns / 3));
  const notes = [
    ...(rows.length === 0 ? [] : [period]),
    ...(total.imputed_cost_usd > 0
      ? [`${cost(total.imputed_cost_usd)} of the cost is imputed: the agent was logged in by subscription`]
      : []),
    ...(total.estimated_cost_usd > 0
      ? [
          `${cost(total.estimated_cost_usd, true)} of the cost is reckoned from tokens: runs ended without a result`,
        ]
      : []),
    ...budgets.map(budgetLine),
  ];
  return list<UsageFigures & { group: string }>(
    rows.length === 0 ? [] : [...rows, { ...total, group: totalLabel }],
    [
      [
        by.toUpperCase(),
        ({ group }) => cut(oneLine(group) || "–", room, by === "repository" ? "start" : "end"),
      ],
      ["RUNS", ({ runs }) => runs.toLocaleString("en"), right],
      ["OK", ({ success_rate: rate }) => (rate === null ? "–" : `${Math.floor(rate * 100)} %`), right],
      ["TOKENS", (row) => compact.format(tokensOf(row)), effort],
      ["TURNS", ({ turns }) => compact.format(turns), effort],
      ["TIME", (row) => duration(row.duration_ms), effort],
      ["COST", (row) => cost(row.cost_usd + row.imputed_cost_usd, row.estimated_cost_usd > 0), right],
    ],
    { empty: `No runs from ${period}`, below: notes, ...layout },
  );
};

const effort = { right: true, leaves: 1 } as const;

const budgetLine = ({ of, profile, limit_usd: limit, spent_usd: spent }: Budget): string =>
  `Budget of ${profile === null ? `the ${of}` : oneLine(profile)} today: ${cost(Math.max(0, limit - spent))} of ${cost(limit)} left`;

/** No day, profile or key is called so: names are sanitised, and this one has a space in front. */
const totalLabel = " total";

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

const tokensOf = (row: UsageFigures): number =>
  row.input_tokens + row.output_tokens + row.cache_creation_input_tokens + row.cache_read_input_tokens;

/** The status, and what was looked at besides. */
export const readinessFacts = (readiness: Readiness, paint: Paint): Fact[] => [
  ["Status", paint(readiness.ready ? "green" : "red", oneLine(readinessText(readiness))), "prose"],
  ...readiness.checks.filter(({ name }) => name !== "jobs").map((check) => checkFact(check, paint)),
];

export const checkFact = ({ name, status: found, message }: Check, paint: Paint): Fact => [
  oneLine(name.charAt(0).toUpperCase() + name.slice(1)),
  paint(checkColours[found], found === "ok" ? "ok" : `${found}:`) + ` ${oneLine(message)}`,
  "prose",
];

const checkColours: Record<Check["status"], Format> = { ok: "green", warning: "yellow", fault: "red" };
