import type { ClientBase } from "pg";
import { pause } from "../lib/wait.ts";
import type { Database, Query } from "./database.ts";

/** A pool of connections, which are opened when they are needed. @throws Error when the URL cannot be read */
export const openPostgres = async (url: string): Promise<Database> => {
  // Loaded on demand: most services have no PostgreSQL.
  const { default: postgres } = await import("pg");
  const pool = new postgres.Pool({
    connectionString: url,
    max: 4,
    connectionTimeoutMillis: 5000,
    idleTimeoutMillis: 60_000,
    keepAlive: true,
    application_name: "svc",
    types: { getTypeParser: (type) => (numbers.includes(type) ? Number : String) },
  });
  // A lost connection fails its query. Without listeners it would end the process, too.
  pool.on("error", () => undefined);
  pool.on("connect", (client) => void client.on("error", () => undefined));
  return {
    query: queryOf(pool),
    transaction: async (work) => {
      const client = await pool.connect();
      let isDone = false;
      try {
        await client.query("BEGIN");
        const result = await work(queryOf(client));
        await client.query("COMMIT");
        isDone = true;
        return result;
      } finally {
        // The end of the connection undoes what it has begun.
        client.release(!isDone);
      }
    },
    lock: "SELECT pg_advisory_xact_lock(5208200)",
    clustered: "",
    // Classes: data exception, integrity constraint violation, program limit exceeded.
    isRefusal: (error) => /^(22|23|54)/.test((error as { code?: string }).code ?? ""),
    close: () => Promise.race([pool.end(), pause(1000, new AbortController().signal)]),
  };
};

/** The types int8, int2, int4, float4, float8 and numeric; all others stay text. */
const numbers = [20, 21, 23, 700, 701, 1700];

const queryOf =
  (connection: Pick<ClientBase, "query">): Query =>
  async <Row>(sql: string, values: Parameters<Query>[1] = []) => {
    let count = 0;
    const numbered = sql.replaceAll("?", () => `$${++count}`);
    const { rows } = await connection.query(numbered, [...values]);
    return rows as Row[];
  };
