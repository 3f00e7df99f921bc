import { closeSync, openSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import type { Database, Query } from "./database.ts";

/** A file that belongs to this process; others may read it. @throws Error when it cannot be opened */
export const openSqlite = (path: string): Database => {
  // SQLite would let everybody read it.
  closeSync(openSync(path, "a", 0o600));
  const file = new DatabaseSync(path, { timeout: 100 });
  file.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL");
  const mutex = createKeyedMutex();
  // Between two statements other work has its turn; only the mutex keeps it out of the transaction.
  const query: Query = async <Row>(sql: string, values: Parameters<Query>[1] = []) => {
    await nextTurn();
    return file.prepare(sql).all(...values) as Row[];
  };
  return {
    query: (sql, values) => mutex.runExclusive("", () => query(sql, values)),
    transaction: (work) =>
      mutex.runExclusive("", async () => {
        file.exec("BEGIN IMMEDIATE");
        try {
          const result = await work(query);
          file.exec("COMMIT");
          return result;
        } catch (error) {
          if (file.isTransaction) file.exec("ROLLBACK");
          throw error;
        }
      }),
    lock: null,
    // Reading a year of the roll-up takes a third of the time.
    clustered: "WITHOUT ROWID",
    isRefusal: (error) => refusals.includes(Number((error as { errcode?: number }).errcode ?? 0) % 256),
    close: () => mutex.runExclusive("", async () => file.close()),
  };
};

/** SQLITE_TOOBIG, SQLITE_CONSTRAINT, SQLITE_MISMATCH. */
const refusals = [18, 19, 20];
