import type { Usage, UsageInput } from "../contract/usage.ts";
import type { EarlierRuns } from "./cost.ts";

/** PORT. The database of telemetry and of what runs cost: SQLite, or PostgreSQL (SERVICE_TELEMETRY_DB). */
export type TelemetrySink = {
  /** Stores what agents reported, all or nothing. */
  append: (batch: TelemetryBatch) => Promise<void>;
  /**
   * Stores an ended run; a second call for the same run changes nothing. This and `append` reject while the database is
   * unreachable, and with an error that has `permanent: true` when it can never take this.
   */
  addRun: (run: EndedRun) => Promise<void>;
  /** Costs of a day (UTC, `2026-03-02`) so far, USD; imputed costs left out unless `imputed`. */
  spent: (query: SpentQuery) => Promise<number>;
  /** The newest runs of a model for which its agent reported a cost, added up; null: there are none. */
  earlierRuns: (model: string) => Promise<EarlierRuns | null>;
  /** Runs and their costs, added up. It, `earlierRuns` and `spent` reject with `store_unavailable` while the database is unreachable. */
  usage: (input: UsageInput) => Promise<Usage>;
  close: () => Promise<void>;
};

/** What one request of an OTLP exporter holds, by signal. */
export type TelemetryBatch = {
  metrics: MetricPoint[];
  events: LoggedEvent[];
  spans: Span[];
};

/** Any JSON value by name; resource attributes have the prefix `resource.` where a record has the same name. */
type Attributes = Record<string, unknown>;

/** Whose it is; null: unknown. `job_id`: the job, or the chat process, from the resource attribute `service.job_id`. */
type Origin = { job_id: string | null; session_id: string | null };

export type MetricPoint = Origin & {
  /** ISO 8601 in UTC with milliseconds, as every time here. */
  at: string;
  name: string;
  /** As sent: `USD`, `tokens`, `s` … */
  unit: string;
  /** For a delta sum, the amount added; for a gauge, the value; for a histogram, the sum. */
  value: number;
  attributes: Attributes;
};

export type LoggedEvent = Origin & {
  at: string;
  /** `event.name`, else the body. */
  name: string;
  /** `INFO` …; empty: not sent. */
  severity: string;
  body: string;
  trace_id: string | null;
  span_id: string | null;
  attributes: Attributes;
};

export type Span = Origin & {
  trace_id: string;
  span_id: string;
  parent_span_id: string | null;
  name: string;
  started_at: string;
  ended_at: string;
  /** `unset`, `ok` or `error`. */
  status: string;
  attributes: Attributes;
};

/** A job that has ended, or a turn of agent mode. */
export type EndedRun = {
  /** Unique: the job's id, or the id of the chat turn. */
  id: string;
  kind: "job" | "chat";
  ended_at: string;
  /** `succeeded`, `failed`, `cancelled` or `expired`. */
  status: string;
  failure_reason: string | null;
  profile: string;
  /** Empty: none. */
  repo_url: string;
  /** Empty: unknown. */
  model: string;
  /** Digest of the caller's API key; `open` where no keys are set; empty: unknown. */
  principal: string;
  cost_usd: number;
  /** The cost, or a part of it, was reckoned from tokens. */
  estimated: boolean;
  /** The agent was logged in by subscription: the cost is computed, not billed. */
  imputed: boolean;
  input_tokens: number;
  output_tokens: number;
  cache_creation_tokens: number;
  cache_read_tokens: number;
  turns: number;
  duration_ms: number;
};

/** Runs of that day that fit all that is given. */
export type SpentQuery = { day: string; profile?: string; principal?: string; imputed: boolean };
