import { ServiceError } from "../contract/errors.ts";
import { orAborted, pause } from "../lib/wait.ts";
import type { Database, Query } from "./database.ts";
import { rowsOf, runRow, usageKeys, usageSums, type Row } from "./rows.ts";
import { migrate } from "./schema.ts";
import type { EndedRun, SpentQuery, TelemetryBatch, TelemetrySink } from "./sink.ts";
import { usageOf } from "./usage.ts";

type Dependencies = {
  open: () => Database | Promise<Database>;
  now: () => Date;
};

/** Every function rejects while the database is unreachable. */
export type SqlSink = Omit<TelemetrySink, "append"> & {
  /** Stores a batch once, however often it is given by this id. */
  append: (batch: TelemetryBatch, id: string) => Promise<void>;
  /** Deletes, in small steps, what is older than these times. */
  prune: (before: { telemetry: Date; runs: Date }, signal: AbortSignal) => Promise<void>;
};

/** Opens and migrates the database when it is first asked. */
export const createSqlSink = ({ open, now }: Dependencies): SqlSink => {
  let opening: Promise<Database> | null = null;
  let migrated: Promise<void> | null = null;
  const ready = async (): Promise<Database> => {
    opening ??= Promise.resolve().then(open);
    const database = await opening.catch((error: unknown) => {
      opening = null;
      throw error;
    });
    migrated ??= migrate(database);
    await migrated.catch((error: unknown) => {
      migrated = null;
      throw error;
    });
    return database;
  };
  const asking = <Result>(seconds: number, work: (database: Database) => Promise<Result>): Promise<Result> =>
    orAborted(ready().then(work), AbortSignal.timeout(seconds * 1000));

  /** A write that lasts longer is given up and repeated: by its id it has an effect once only. */
  const store = (work: (query: Query) => Promise<void>): Promise<void> =>
    asking(60, (database) =>
      database.transaction(work).catch((error: unknown) => {
        // A `TypeError`: a field is missing, or has another type.
        throw error instanceof TypeError || database.isRefusal(error)
          ? Object.assign(new Error(String(error)), { permanent: true })
          : error;
      }),
    );
  const read = <Result>(work: (query: Query) => Promise<Result>): Promise<Result> =>
    asking(10, ({ query }) => work(query)).catch((cause: unknown) => {
      if (cause instanceof ServiceError) throw cause;
      const message =
        "The telemetry database (SERVICE_TELEMETRY_DB, or telemetry.db) cannot be asked; try again later, or see why in the service's log";
      throw new ServiceError("store_unavailable", message, { cause });
    });

  return {
    append: (batch, id) =>
      store(async (query) => {
        if (!(await addOnce(query, "batches", { id, at: now().toISOString() }))) return;
        for (const [table, rows] of Object.entries(rowsOf(batch))) await insert(query, table, rows);
      }),
    addRun: (run: EndedRun) =>
      store(async (query) => {
        const row = runRow(run);
        if (await addOnce(query, "runs", row)) await count(query, row);
      }),
    spent: ({ day, profile, principal, imputed }: SpentQuery) =>
      read(async (query) => {
        const given = Object.entries({ day, profile, principal }).filter(([, value]) => value !== undefined);
        const where = [...given.map(([name]) => `${name} = ?`), ...(imputed ? [] : ["imputed = 0"])];
        const [sum] = await query<{ spent: number | null }>(
          `SELECT SUM(cost_usd) AS spent FROM usage_daily WHERE ${where.join(" AND ")}`,
          given.map(([, value]) => value ?? ""),
        );
        return sum?.spent ?? 0;
      }),
    earlierRuns: (model) =>
      read(async (query) => {
        const [sums] = await query<Record<string, number | null>>(earlierRuns, [model]);
        if (typeof sums?.["cost_usd"] !== "number") return null;
        return {
          costUsd: sums["cost_usd"],
          usage: {
            input_tokens: sums["input_tokens"] ?? 0,
            output_tokens: sums["output_tokens"] ?? 0,
            cache_creation_input_tokens: sums["cache_creation_tokens"] ?? 0,
            cache_read_input_tokens: sums["cache_read_tokens"] ?? 0,
          },
        };
      }),
    usage: (input) => read((query) => usageOf(query, input, now())),
    prune: async ({ telemetry, runs }, signal) => {
      const { query } = await orAborted(ready(), signal);
      const firstDay = runs.toISOString().slice(0, 10);
      const limits = [
        ["metrics", "at", telemetry.toISOString()],
        ["events", "at", telemetry.toISOString()],
        ["spans", "started_at", telemetry.toISOString()],
        ["batches", "at", new Date(now().getTime() - repeatedWithin).toISOString()],
        ["runs", "ended_at", `${firstDay}T00:00:00.000Z`],
        ["usage_daily", "day", firstDay],
      ] as const;
      for (const [table, column, before] of limits)
        await orAborted(deleteBefore(query, { table, column, before }, signal), signal);
    },
    close: async () => {
      const database = await opening?.catch(() => null);
      await database?.close();
    },
  };
};

/** Prices change: few are enough, and the newest count. */
const earlierRuns = `SELECT ${[
  "cost_usd",
  "input_tokens",
  "output_tokens",
  "cache_creation_tokens",
  "cache_read_tokens",
]
  .map((name) => `CAST(SUM(${name}) AS double precision) AS ${name}`)
  .join(", ")} FROM (SELECT * FROM runs WHERE model = ? AND cost_usd > 0 AND estimated_cost_usd = 0
  ORDER BY ended_at DESC LIMIT 20) AS newest`;

/** How long the ids of batches are kept, ms. */
const repeatedWithin = 7 * 86_400_000;

const insertion = (table: string, [first = {}, ...others]: readonly Row[]): string => {
  const columns = Object.keys(first);
  const places = `(${columns.map(() => "?").join(", ")})`;
  return `INSERT INTO ${table} (${columns.join(", ")}) VALUES ${[places, ...others.map(() => places)].join(", ")}`;
};

/** Rows in one statement: well below the number of values that the databases take. */
const rowsAtOnce = 500;

const insert = async (query: Query, table: string, rows: readonly Row[]): Promise<void> => {
  for (let at = 0; at < rows.length; at += rowsAtOnce) {
    const some = rows.slice(at, at + rowsAtOnce);
    await query(
      insertion(table, some),
      some.flatMap((row) => Object.values(row)),
    );
  }
};

/** False: a row of this id is there already. */
const addOnce = async (query: Query, table: string, row: Row): Promise<boolean> => {
  const sql = `${insertion(table, [row])} ON CONFLICT (id) DO NOTHING RETURNING id`;
  return (await query(sql, Object.values(row))).length > 0;
};

/** Adds a run to the roll-up. */
const count = async (query: Query, run: Row): Promise<void> => {
  const names = [...usageKeys, ...usageSums];
  const row: Row = Object.fromEntries(names.map((name) => [name, name === "runs" ? 1 : (run[name] ?? 0)]));
  const adding = usageSums.map((name) => `${name} = usage_daily.${name} + excluded.${name}`).join(", ");
  await query(
    `${insertion("usage_daily", [row])} ON CONFLICT (${usageKeys.join(", ")}) DO UPDATE SET ${adding}`,
    Object.values(row),
  );
};

/** Rows that one step deletes; others are served between the steps. */
const deletedAtOnce = 1000;

const deleteBefore = async (
  query: Query,
  { table, column, before }: { table: string; column: string; before: string },
  signal: AbortSignal,
): Promise<void> => {
  for (let last: { at: string } | undefined; !signal.aborted; await pause(20, signal)) {
    [last] = await query<{ at: string }>(
      `SELECT ${column} AS at FROM ${table} WHERE ${column} < ? ORDER BY ${column} LIMIT 1 OFFSET ${deletedAtOnce}`,
      [before],
    );
    // Rows of the same time go together, so that each step deletes some.
    if (last === undefined) return void (await query(`DELETE FROM ${table} WHERE ${column} < ?`, [before]));
    await query(`DELETE FROM ${table} WHERE ${column} <= ?`, [last.at]);
  }
};
