import type { Value } from "./database.ts";
import type { EndedRun, LoggedEvent, MetricPoint, Span, TelemetryBatch } from "./sink.ts";

/** A row by column. */
export type Row = Record<string, Value>;

/** What the roll-up `usage_daily` distinguishes, and what it adds up. */
export const usageKeys = [
  "day",
  "kind",
  "profile",
  "repo_url",
  "model",
  "principal",
  "status",
  "imputed",
] as const;
export const usageSums = [
  "runs",
  "cost_usd",
  "estimated_cost_usd",
  "input_tokens",
  "output_tokens",
  "cache_creation_tokens",
  "cache_read_tokens",
  "turns",
  "duration_ms",
] as const;

/** The rows of each table. */
export const rowsOf = ({ metrics, events, spans }: TelemetryBatch): Record<string, Row[]> => ({
  metrics: metrics.map(metricRow),
  events: events.map(eventRow),
  spans: spans.map(spanRow),
});

const metricRow = ({ at, jobId, sessionId, name, unit, value, attributes }: MetricPoint): Row =>
  cleaned({ at, job_id: jobId, session_id: sessionId, name, unit, value, attributes: json(attributes) });

const eventRow = (event: LoggedEvent): Row =>
  cleaned({
    at: event.at,
    job_id: event.jobId,
    session_id: event.sessionId,
    name: event.name,
    severity: event.severity,
    body: event.body,
    trace_id: event.traceId,
    span_id: event.spanId,
    attributes: json(event.attributes),
  });

const spanRow = (span: Span): Row =>
  cleaned({
    started_at: span.startedAt,
    ended_at: span.endedAt,
    job_id: span.jobId,
    session_id: span.sessionId,
    trace_id: span.traceId,
    span_id: span.spanId,
    parent_span_id: span.parentSpanId,
    name: span.name,
    status: span.status,
    attributes: json(span.attributes),
  });

export const runRow = (run: EndedRun): Row =>
  cleaned({
    id: run.id,
    ended_at: run.endedAt,
    failure_reason: run.failureReason,
    day: run.endedAt.slice(0, 10),
    kind: run.kind,
    profile: run.profile.slice(0, maxKey),
    repo_url: run.repoUrl.slice(0, maxKey),
    model: run.model.slice(0, maxKey),
    principal: run.principal,
    status: run.status,
    imputed: run.imputed ? 1 : 0,
    cost_usd: run.costUsd,
    estimated_cost_usd: run.estimated ? run.costUsd : 0,
    input_tokens: run.inputTokens,
    output_tokens: run.outputTokens,
    cache_creation_tokens: run.cacheCreationTokens,
    cache_read_tokens: run.cacheReadTokens,
    turns: run.turns,
    duration_ms: Math.round(run.durationMs),
  });

/** PostgreSQL takes 2,704 bytes in all as the key of a row. */
const maxKey = 500;

/** PostgreSQL takes no NUL in a text. */
const cleaned = (row: Row): Row =>
  Object.fromEntries(
    Object.entries(row).map(([name, value]) => [
      name,
      typeof value === "string" ? value.replaceAll("\0", "\uFFFD") : value,
    ]),
  );

/** PostgreSQL takes neither NUL nor half a surrogate pair in JSON. */
const json = (value: unknown): string =>
  JSON.stringify(value).replaceAll(/(?<!\\)((?:\\\\)*)\\u(?:0000|d[89a-f][0-9a-f]{2})/g, "$1\\ufffd");
