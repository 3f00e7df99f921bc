import type { Sql } from "postgres";
import type { Database, Query } from "./database.ts";

/** A pool of connections, which are opened when they are needed. @throws Error when the URL cannot be read */
export const openPostgres = async (url: string): Promise<Database> => {
  // Loaded on demand: most services have no PostgreSQL.
  const { default: postgres } = await import("postgres");
  const pool = postgres(url, {
    max: 4,
    connect_timeout: 5,
    idle_timeout: 60,
    backoff: () => 0.5,
    fetch_types: false,
    connection: { application_name: "svc" },
    onnotice: () => undefined,
    types: { json: asText(114, 3802), date: asText(1082, 1114, 1184) },
  });
  return {
    query: queryOf(pool),
    transaction: async (work) => {
      // `begin` unwraps arrays in its result.
      const { result } = await pool.begin(async (connection) => ({
        result: await work(queryOf(connection)),
      }));
      return result;
    },
    lock: "SELECT pg_advisory_xact_lock(5208200)",
    clustered: "",
    // Classes: data exception, integrity constraint violation, program limit exceeded.
    isRefusal: (error) => /^(22|23|54)/.test((error as { code?: string }).code ?? ""),
    close: () => pool.end({ timeout: 1 }),
  };
};

const queryOf =
  (connection: Pick<Sql, "unsafe">): Query =>
  async <Row>(sql: string, values: Parameters<Query>[1] = []) => {
    let count = 0;
    const numbered = sql.replaceAll("?", () => `$${++count}`);
    return Array.from(await connection.unsafe(numbered, [...values])) as Row[];
  };

/** These types are passed on as they are written. */
const asText = (...types: number[]) => ({
  to: types[0] ?? 0,
  from: types,
  serialize: String,
  parse: (text: string) => text,
});
