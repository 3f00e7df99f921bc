import { useState } from "react";
import type { UsageRow, UsageFigures } from "../../../src/contract/usage.ts";
import { cost, duration } from "../../../src/view/quantities.ts";
import { Ledger, type Column } from "../parts/ledger.tsx";
import { Button } from "../shell/shortcuts.tsx";

const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/** A figure of some runs; null: they have none. */
type Measure = {
  title: string;
  of: (figures: UsageFigures) => number | null;
  text: (value: number, figures?: UsageFigures) => string;
  /** Of the axis; absent: that of the largest value. */
  most?: number;
};

export const costOf = ({ cost_usd, imputed_cost_usd }: UsageFigures): number => cost_usd + imputed_cost_usd;

const measures: readonly Measure[] = [
  {
    title: "Cost",
    of: costOf,
    text: (usd, figures) => (usd === 0 ? "$0" : cost(usd, (figures?.estimated_cost_usd ?? 0) > 0)),
  },
  {
    title: "Tokens",
    of: (row) =>
      row.input_tokens + row.output_tokens + row.cache_creation_input_tokens + row.cache_read_input_tokens,
    text: (tokens) => compact.format(tokens),
  },
  {
    title: "Success rate",
    of: ({ success_rate: rate }) => rate,
    text: (rate) => `${Math.floor(rate * 100)} %`,
    most: 1,
  },
  {
    title: "Time of a run",
    of: ({ runs, duration_ms }) => (runs === 0 ? null : duration_ms / runs),
    text: (ms) => (ms === 0 ? "0" : duration(ms)),
  },
];

/** What is known of some runs: how many there were, and each measure. */
export const figures: readonly Column<UsageFigures>[] = [
  ["Runs", ({ runs }) => runs.toLocaleString("en"), "named number"],
  ...measures.map(({ title, of, text }): Column<UsageFigures> => [
    title,
    (row) => {
      const value = of(row);
      return value === null ? "–" : text(value, row);
    },
    "named number",
  ]),
];

type Props = { rows: readonly UsageRow[]; since: string; until: string };

/** A chart for each figure, and one table with all of them, which is there also while it is not seen. */
export const Days = ({ rows, since, until }: Props) => {
  const [isTable, setTable] = useState(false);
  const [pointed, point] = useState<number | null>(null);
  const days = daysOf(since, until);
  const byDay = new Map(rows.map((row) => [row.group, row]));
  return (
    <section aria-label="By day" className="stack">
      <div className="charts">
        {measures.map((measure) => (
          <Chart key={measure.title} {...{ measure, days, byDay, pointed, point }} />
        ))}
      </div>
      <Button
        text="Show the days as a table"
        className="quiet"
        aria-pressed={isTable}
        run={() => setTable(!isTable)}
      />
      <div className={isTable ? undefined : "visually-hidden"}>
        <Ledger
          label="Figures by day"
          rows={days.flatMap((day) => byDay.get(day) ?? [])}
          keyOf={({ group }) => group}
          columns={[["Day", ({ group }) => group, "mono"], ...figures]}
        />
      </div>
    </section>
  );
};

const dayMs = 86_400_000;

/** Each day of a period, the last 400 of it, for which the service keeps runs. */
const daysOf = (since: string, until: string): string[] => {
  const last = Date.parse(until);
  const first = Math.max(Date.parse(since), last - 399 * dayMs);
  const count = Math.round((last - first) / dayMs) + 1;
  return Array.from({ length: count }, (_, at) => new Date(first + at * dayMs).toISOString().slice(0, 10));
};

type ChartProps = {
  measure: Measure;
  days: readonly string[];
  byDay: ReadonlyMap<string, UsageRow>;
  /** The day that is pointed at in any of the charts; null: none. */
  pointed: number | null;
  point: (day: number | null) => void;
};

/** A bar for each day. For those who see only: the page has the figures as a table. */
const Chart = ({ measure: { title, of, text, most }, days, byDay, pointed, point }: ChartProps) => {
  const values = days.map((day) => {
    const row = byDay.get(day);
    return row === undefined ? null : of(row);
  });
  const top = most ?? roundUp(Math.max(...values.map((value) => value ?? 0)));
  const named = [0, Math.floor((days.length - 1) / 2), days.length - 1];
  const value = values[pointed ?? -1] ?? null;
  return (
    <figure className="stack">
      <figcaption className="row between">
        <h2>{title}</h2>
        <span className="number" aria-hidden="true">
          {pointed !== null && `${days[pointed]}  ${value === null ? "–" : text(value)}`}
        </span>
      </figcaption>
      <div className="chart small faint" aria-hidden="true">
        {[1, 0.5, 0].map((part) => (
          <span key={part} className="tick" style={{ bottom: `${part * 100}%` }}>
            {text(top * part)}
          </span>
        ))}
        <svg
          viewBox={`0 0 ${days.length} ${top}`}
          preserveAspectRatio="none"
          onPointerMove={({ clientX, currentTarget }) => {
            const { left, width } = currentTarget.getBoundingClientRect();
            point(
              Math.max(0, Math.min(days.length - 1, Math.floor(((clientX - left) / width) * days.length))),
            );
          }}
          onPointerLeave={() => point(null)}
        >
          {pointed !== null && <rect className="pointed" x={pointed} width="1" height={top} />}
          {values.map((each, at) => (
            <rect key={days[at]} x={at + 0.14} width="0.72" y={top - (each ?? 0)} height={each ?? 0} />
          ))}
        </svg>
      </div>
      <p className="row between small faint days" aria-hidden="true">
        {[...new Set(named)].map((at) => (
          <span key={at}>{dayName.format(Date.parse(days[at] ?? ""))}</span>
        ))}
      </p>
    </figure>
  );
};

/** The next number with one digit, and even, so that its half is round too. */
const roundUp = (value: number): number => {
  const unit = 10 ** Math.floor(Math.log10(value || 1));
  return ([1, 2, 4, 6, 8, 10].find((step) => step * unit >= value) ?? 10) * unit;
};

const dayName = new Intl.DateTimeFormat("en", { day: "numeric", month: "short", timeZone: "UTC" });
