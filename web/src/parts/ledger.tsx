import type { ReactNode } from "react";
import "./lists.css";

/**
 * A column: its head, what it shows of a row, and classes. `named`: on a phone, where the heads are not shown, the head
 * stands before the cell.
 */
export type Column<Row> = readonly [head: string, cell: (row: Row) => ReactNode, classes?: string];

type Props<Row> = {
  label: string;
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  /** The first names the row. */
  columns: readonly Column<Row>[];
};

/** A table that is short enough to be made whole. */
export const Ledger = <Row,>({ label, rows, keyOf, columns }: Props<Row>) => (
  <div className="scrolled">
    <table className="ledger" aria-label={label}>
      <thead className="small faint">
        <tr>
          {columns.map(([head]) => (
            <th key={head} scope="col">
              {head}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {rows.map((row) => (
          <tr key={keyOf(row)}>
            {columns.map(([head, cell, classes], at) => {
              const [Cell, scope] = at === 0 ? (["th", "row"] as const) : (["td"] as const);
              return (
                <Cell key={head} scope={scope} className={classes} data-name={head}>
                  {cell(row)}
                </Cell>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);
