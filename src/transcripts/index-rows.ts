import { statSync } from "node:fs";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { Source } from "./corpus.ts";
import type { Facts } from "./facts.ts";
import { storeFailure } from "./store-failure.ts";

type Value = string | number | null | Uint8Array;

/**
 * Statements of one file, each prepared once. Failures of the file are `store_unavailable`.
 * @throws ServiceError store_unavailable; Error of `open`
 */
export const createSql = (path: string, open: (path: string) => DatabaseSync) => {
  const attempt = <Result>(work: () => Result): Result => {
    try {
      return work();
    } catch (error) {
      throw storeFailure(error, path);
    }
  };
  const opened = () => ({
    database: open(path),
    file: fileIdOf(path),
    statements: new Map<string, StatementSync>(),
  });
  let current: ReturnType<typeof opened> | null = attempt(opened);
  const connection = () => (current ??= opened());
  const close = (): void => {
    current?.database.close();
    current = null;
  };

  const prepared = (sql: string): StatementSync => {
    const { database, statements } = connection();
    let statement = statements.get(sql);
    if (statement === undefined) statements.set(sql, (statement = database.prepare(sql)));
    return statement;
  };
  return {
    attempt,
    all: <Row>(sql: string, ...values: Value[]): Row[] =>
      attempt(() => prepared(sql).all(...values) as Row[]),
    first: <Row>(sql: string, ...values: Value[]): Row | undefined =>
      attempt(() => prepared(sql).get(...values) as Row | undefined),
    run: (sql: string, ...values: Value[]) => attempt(() => prepared(sql).run(...values)),
    transaction: <Result>(work: () => Result): Result =>
      attempt(() => {
        const { database } = connection();
        database.exec("BEGIN IMMEDIATE");
        try {
          const result = work();
          database.exec("COMMIT");
          return result;
        } catch (error) {
          if (database.isTransaction) database.exec("ROLLBACK");
          throw error;
        }
      }),
    /** Opens the file anew if it was removed or replaced: what is written to the old one is lost. */
    renew: (): void =>
      attempt(() => {
        if (fileIdOf(path) !== current?.file) close();
      }),
    close,
  };
};

const fileIdOf = (path: string): number | undefined => statSync(path, { throwIfNoEntry: false })?.ino;

export type Sql = ReturnType<typeof createSql>;

/** A source as it is stored. */
export type SourceRow = { number: number; source: Source; facts: Facts };

export type StoredSource = { number: number; record: string; facts: string };

export const toSourceRow = ({ number, record, facts }: StoredSource): SourceRow => ({
  number,
  source: JSON.parse(record) as Source,
  facts: JSON.parse(facts) as Facts,
});
