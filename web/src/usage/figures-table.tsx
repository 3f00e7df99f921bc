import type { ReactNode } from "react";
import type { UsageRow } from "../../../src/contract/usage.ts";
import { measures, shown } from "./figures.ts";

type Props = {
  head: string;
  label?: string;
  rows: readonly UsageRow[];
  name: (row: UsageRow) => ReactNode;
  /** Length of the row's bar, from 0 to 1; absent: there are no bars. */
  share?: (row: UsageRow) => number;
};

/** All figures, a row for each group. */
export const FiguresTable = ({ head, label, rows, name, share }: Props) => (
  <div className="scrolled">
    <table className="ledger" aria-label={label}>
      <thead>
        <tr>
          {[head, "Runs", ...measures.map(({ title }) => title)].map((title) => (
            <th key={title} scope="col">
              {title}
            </th>
          ))}
          {share && <td aria-hidden="true" />}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={row.group}>
            <th scope="row">{name(row)}</th>
            <td>{row.runs.toLocaleString("en")}</td>
            {measures.map((measure) => (
              <td key={measure.title}>{shown(measure, row)}</td>
            ))}
            {share && (
              <td aria-hidden="true" className="share">
                <svg viewBox="0 0 100 10" preserveAspectRatio="none">
                  <rect width={share(row) * 100} height="10" />
                </svg>
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);
