import { toJson } from "../lib/well-formed.ts";
import type { Value } from "./database.ts";
import type { EndedRun, LoggedEvent, MetricPoint, Span, TelemetryBatch } from "./sink.ts";

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

export const rowsOf = (batch: TelemetryBatch): Record<keyof TelemetryBatch, Row[]> => ({
  metrics: batch.metrics.map(recordRow),
  events: batch.events.map(recordRow),
  spans: batch.spans.map(recordRow),
});

const recordRow = (record: MetricPoint | LoggedEvent | Span): Row =>
  cleaned({ ...record, attributes: toJson(record.attributes) });

export const runRow = ({ estimated, imputed, ...run }: EndedRun): Row =>
  cleaned({
    ...run,
    day: run.ended_at.slice(0, 10),
    profile: run.profile.slice(0, maxKey),
    repo_url: run.repo_url.slice(0, maxKey),
    model: run.model.slice(0, maxKey),
    imputed: imputed ? 1 : 0,
    estimated_cost_usd: estimated ? run.cost_usd : 0,
    duration_ms: Math.round(run.duration_ms),
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
