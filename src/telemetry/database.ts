/** PORT. What the telemetry needs of a database. SQL is that which SQLite and PostgreSQL both know, values are `?`. */
export type Database = {
  query: Query;
  /** All that the work asks through its `query`, or nothing. */
  transaction: <Result>(work: (query: Query) => Promise<Result>) => Promise<Result>;
  /** Statement that lets one transaction of all instances go on at a time; null: each transaction does. */
  lock: string | null;
  /** Ends the definition of a table that is kept in the order of its key. */
  clustered: string;
  /** Whether the values are at fault: another try fails likewise. */
  isRefusal: (error: unknown) => boolean;
  close: () => Promise<void>;
};

export type Value = string | number | null;

export type Query = <Row>(sql: string, values?: readonly Value[]) => Promise<Row[]>;
