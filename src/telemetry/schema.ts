import type { Database } from "./database.ts";

const sums = `
  cost_usd double precision NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cache_creation_tokens bigint NOT NULL,
  cache_read_tokens bigint NOT NULL,
  turns bigint NOT NULL,
  duration_ms bigint NOT NULL`;

const group = `
  day date NOT NULL,
  kind text NOT NULL,
  profile text NOT NULL,
  repo_url text NOT NULL,
  model text NOT NULL,
  principal text NOT NULL,
  status text NOT NULL,
  imputed integer NOT NULL`;

/** The statements that lead from each version of the schema to the next. Only ever add to this list. */
const versionsFor = ({ clustered }: Database): string[][] => [
  [
    `CREATE TABLE metrics (at timestamptz NOT NULL, job_id text, session_id text, name text NOT NULL,
      unit text NOT NULL, value double precision, attributes jsonb NOT NULL)`,
    "CREATE INDEX metrics_at ON metrics (at)",
    "CREATE INDEX metrics_job ON metrics (job_id)",
    `CREATE TABLE events (at timestamptz NOT NULL, job_id text, session_id text, name text NOT NULL,
      severity text NOT NULL, body text NOT NULL, trace_id text, span_id text, attributes jsonb NOT NULL)`,
    "CREATE INDEX events_at ON events (at)",
    "CREATE INDEX events_job ON events (job_id)",
    `CREATE TABLE spans (started_at timestamptz NOT NULL, ended_at timestamptz NOT NULL, job_id text,
      session_id text, trace_id text NOT NULL, span_id text NOT NULL, parent_span_id text, name text NOT NULL,
      status text NOT NULL, attributes jsonb NOT NULL)`,
    "CREATE INDEX spans_started ON spans (started_at)",
    "CREATE INDEX spans_job ON spans (job_id)",
    "CREATE INDEX spans_trace ON spans (trace_id)",
    "CREATE TABLE batches (id text PRIMARY KEY, at timestamptz NOT NULL)",
    "CREATE INDEX batches_at ON batches (at)",
    `CREATE TABLE runs (id text PRIMARY KEY, ended_at timestamptz NOT NULL, failure_reason text, ${group}, ${sums})`,
    "CREATE INDEX runs_ended ON runs (ended_at)",
    `CREATE TABLE usage_daily (${group}, runs bigint NOT NULL, ${sums},
      PRIMARY KEY (day, kind, profile, repo_url, model, principal, status, imputed)) ${clustered}`,
  ],
  [
    "ALTER TABLE runs ADD COLUMN estimated_cost_usd double precision NOT NULL DEFAULT 0",
    "ALTER TABLE usage_daily ADD COLUMN estimated_cost_usd double precision NOT NULL DEFAULT 0",
    "CREATE INDEX runs_model ON runs (model, ended_at)",
  ],
];

/** Brings the schema to this version. Instances that start at once wait for each other. */
export const migrate = (database: Database): Promise<void> =>
  database.transaction(async (query) => {
    if (database.lock !== null) await query(database.lock);
    await query("CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)");
    const [found] = await query<{ version: number | null }>(
      "SELECT MAX(version) AS version FROM schema_version",
    );
    const versions = versionsFor(database);
    const missing = versions.slice(found?.version ?? 0);
    for (const statement of missing.flat()) await query(statement);
    if (missing.length > 0) await query("INSERT INTO schema_version (version) VALUES (?)", [versions.length]);
  });
