import { closeSync, mkdirSync, openSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync, type StatementSync } from "node:sqlite";
import { ServiceError } from "../contract/errors.ts";

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
    /** Gives the room of what was removed back to the disk. Files of earlier versions are written anew for it, once. */
    shrink: (): void =>
      attempt(() => {
        const isReady = prepared("PRAGMA auto_vacuum").get()?.["auto_vacuum"] !== 0;
        connection().database.exec(isReady ? "PRAGMA incremental_vacuum" : "PRAGMA auto_vacuum = 2; VACUUM");
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

/** How long a writer waits for another process's transaction, ms. */
const patience = 10_000;

/** A file of this user, which several processes may share. @throws Error when it cannot be opened */
export const openFile = (path: string): DatabaseSync => {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  // SQLite would let everybody read it.
  closeSync(openSync(path, "a", 0o600));
  const database = new DatabaseSync(path, { timeout: patience });
  // It holds from the first table on. Later it would write at each start.
  if (statSync(path).size === 0) database.exec("PRAGMA auto_vacuum = INCREMENTAL");
  database.exec("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA temp_store = MEMORY");
  return database;
};

const full = "cannot grow: make room on its disk; what is missing is then collected by itself";
const unusable =
  "cannot be used: give this user the right to read and write it and its directory, or name another BRIDGE_DIR";
const damaged =
  "is damaged: move it away, with the files that begin with its name. The transcripts that are there are then read anew";

/** Advice for SQLite's result codes. Any other is a fault of the program. */
const remedies: Record<number, string> = {
  5: "is locked by another process: try again, or end that process", // BUSY
  8: unusable, // READONLY
  10: "cannot be read or written: look at its disk and at the limits of this process", // IOERR
  11: damaged, // CORRUPT
  13: full, // FULL
  14: unusable, // CANTOPEN
  26: damaged, // NOTADB
};

/** An error of the file at `path` as callers see it; others stay what they are. */
const storeFailure = (error: unknown, path: string): unknown => {
  const { code = "", errcode = 0, syscall, message } = error as NodeJS.ErrnoException & { errcode?: number };
  const remedy = code.startsWith("ZSTD_")
    ? damaged
    : syscall === undefined
      ? remedies[errcode % 256]
      : code === "ENOSPC"
        ? full
        : unusable;
  return remedy === undefined
    ? error
    : new ServiceError("store_unavailable", `${path} ${remedy} (${message})`, { cause: error });
};
