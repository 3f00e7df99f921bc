import { useCallback, useMemo, useState } from "react";
import type { UsageRow } from "../../../src/contract/usage.ts";
import { late } from "../parts/late.tsx";
import { daysOf } from "./asked.ts";
import { measures } from "./figures.ts";
import { FiguresTable } from "./figures-table.tsx";

const Chart = late(() => import("./chart.tsx"), <div className="chart" />);

type Props = { rows: readonly UsageRow[]; since: string; until: string };

/** A chart for each figure, and one table with all of them, which is there also while it is not seen. */
export const Days = ({ rows, since, until }: Props) => {
  const [isTable, setTable] = useState(false);
  const [pointed, setPointed] = useState<number | null>(null);
  const point = useCallback((day: number | null) => setPointed(day), []);
  const { days, series, byDay } = useMemo(() => {
    const all = daysOf(since, until);
    const found = new Map(rows.map((row) => [row.group, row]));
    const values = measures.map(({ title, of }) =>
      all.map((day) => {
        const row = found.get(day);
        return row === undefined ? (title === "Cost" || title === "Tokens" ? 0 : null) : of(row);
      }),
    );
    return { days: all, series: values, byDay: found };
  }, [rows, since, until]);
  const listed = days.flatMap((each) => byDay.get(each) ?? []);
  const day = pointed === null ? undefined : days[pointed];
  return (
    <section aria-label="By day" className="days">
      <div className="charts">
        {measures.map((measure, at) => {
          const value = pointed === null ? null : (series[at]?.[pointed] ?? null);
          return (
            <figure key={measure.title}>
              <figcaption className="row">
                <h2>{measure.title}</h2>
                <span className="number" aria-hidden="true">
                  {day !== undefined && `${day}  ${value === null ? "–" : measure.text(value)}`}
                </span>
              </figcaption>
              <Chart days={days} values={series[at] ?? []} measure={measure} onPoint={point} />
            </figure>
          );
        })}
      </div>
      <button type="button" className="quiet" aria-pressed={isTable} onClick={() => setTable(!isTable)}>
        Show the days as a table
      </button>
      <div className={isTable ? undefined : "visually-hidden"}>
        <FiguresTable head="Day" label="Figures by day" rows={listed} name={({ group }) => group} />
      </div>
    </section>
  );
};
