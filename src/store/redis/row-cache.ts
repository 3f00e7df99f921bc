import type { JobRecord } from "../job-record.ts";

/** A job as it was read or written: the record, the revision that tells whether it still is so, where its output is. */
export type Row = {
  record: JobRecord;
  rev: string;
  /** Key of the output; empty: it has none, or it is in the record itself. */
  outputKey: string;
  /** Characters it takes. */
  size: number;
};

/** What may be kept at most, in jobs and in characters. */
const limits = { rows: 5000, size: 32 * 1024 * 1024 };

/**
 * Rows that are likely to be written next. Whether one is still true is decided by its revision when it is used, so a
 * stale one costs a second try and no more.
 */
export const createRowCache = ({ rows: mostRows, size: mostSize } = limits) => {
  const rows = new Map<string, Row>();
  let size = 0;

  const forget = (id: string): void => {
    size -= rows.get(id)?.size ?? 0;
    rows.delete(id);
  };

  return {
    get: (id: string): Row | undefined => rows.get(id),
    put: (row: Row): void => {
      forget(row.record.id);
      rows.set(row.record.id, row);
      size += row.size;
      for (const id of rows.keys()) {
        if (rows.size <= mostRows && size <= mostSize) break;
        forget(id);
      }
    },
    forget,
  };
};
