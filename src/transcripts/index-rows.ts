import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Source } from "./corpus.ts";
import type { Facts } from "./facts.ts";

type Value = string | number | null | Uint8Array;

/** Statements of one database, each prepared once. */
export const createSql = (database: DatabaseSync) => {
  const statements = new Map<string, StatementSync>();
  const prepared = (sql: string): StatementSync => {
    let statement = statements.get(sql);
    if (statement === undefined) statements.set(sql, (statement = database.prepare(sql)));
    return statement;
  };
  return {
    all: <Row>(sql: string, ...values: Value[]): Row[] => prepared(sql).all(...values) as Row[],
    first: <Row>(sql: string, ...values: Value[]): Row | undefined =>
      prepared(sql).get(...values) as Row | undefined,
    run: (sql: string, ...values: Value[]) => prepared(sql).run(...values),
    transaction: <Result>(work: () => Result): Result => {
      database.exec("BEGIN IMMEDIATE");
      try {
        const result = work();
        database.exec("COMMIT");
        return result;
      } catch (error) {
        if (database.isTransaction) database.exec("ROLLBACK");
        throw error;
      }
    },
  };
};

export type Sql = ReturnType<typeof createSql>;

/** A source as it is stored. */
export type SourceRow = { number: number; source: Source; facts: Facts };

export type StoredSource = { number: number; record: string; facts: string };

export const toSourceRow = ({ number, record, facts }: StoredSource): SourceRow => ({
  number,
  source: JSON.parse(record) as Source,
  facts: JSON.parse(facts) as Facts,
});
