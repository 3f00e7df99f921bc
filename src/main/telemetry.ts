import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import type { EndedTurn } from "../chat/engine.ts";
import type { Log } from "../lib/log.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import type { JobRecord } from "../store/job-record.ts";
import { openPostgres } from "../telemetry/postgres.ts";
import type { EndedRun, TelemetryBatch, TelemetrySink } from "../telemetry/sink.ts";
import { openSpool } from "../telemetry/spool.ts";
import { createSqlSink } from "../telemetry/sql-sink.ts";
import { openSqlite } from "../telemetry/sqlite.ts";
import { createClockCheck } from "./clock-check.ts";
import { startRepeating } from "./retention.ts";

type Dependencies = {
  settings: Pick<Settings, "telemetryDb" | "telemetryRetention">;
  /** Of this instance alone. */
  directory: string;
  redact: Redactor;
  now: () => Date;
  log: Log;
};

/** What the spool holds. */
type Item = { batch: TelemetryBatch } | { run: EndedRun };

/** The sink of the service: whatever the database does, nothing waits for it but who asks it. */
export const openTelemetry = async ({
  settings,
  directory,
  redact,
  now,
  log,
}: Dependencies): Promise<TelemetrySink> => {
  const { telemetryDb: url, telemetryRetention } = settings;
  const sink = createSqlSink({
    open: () => (url === null ? openSqlite(join(directory, "telemetry.db")) : openPostgres(url)),
    now,
  });
  const spool = await openSpool<Item>({
    directory: join(directory, "telemetry"),
    maxBytes: maxSpooledBytes,
    deliver: (item, id) => ("run" in item ? sink.addRun(item.run) : sink.addBatch(id, item.batch)),
    what: "telemetry records",
    now,
    log,
  });
  const before = (seconds: number): Date => new Date(now().getTime() - seconds * 1000);
  const mayDelete = createClockCheck({ now, log });
  const retention = startRepeating(async (signal) => {
    if (!mayDelete()) return;
    await sink
      .prune({ telemetry: before(telemetryRetention), runs: before(runRetention) }, signal)
      .catch((err: unknown) => log.debug({ err }, "the retention of telemetry was put off"));
  }, 600_000);

  return {
    append: (batch) => spool.add({ batch: redactDeep(batch, redact) }),
    addRun: (run) => spool.add({ run }),
    spent: sink.spent,
    earlierRuns: sink.earlierRuns,
    usage: sink.usage,
    close: async () => {
      await spool.close();
      await retention.stop();
      await sink.close();
    },
  };
};

const maxSpooledBytes = 256 * 1_048_576;

/** Seconds: 400 days. */
const runRetention = 34_560_000;

/** An ended job as a run. */
export const jobRun = (record: JobRecord, imputed: boolean): EndedRun => ({
  id: record.id,
  kind: "job",
  endedAt: record.ended_at ?? record.created_at,
  status: record.status,
  failureReason: record.failure_reason,
  profile: record.profile,
  repoUrl: record.repo_url,
  model: record.model ?? "",
  principal: record.principal,
  costUsd: record.cost_usd ?? 0,
  estimated: record.cost_estimated,
  imputed,
  ...tokensOf(record.usage),
  turns: record.num_turns ?? 0,
  durationMs: record.duration_ms ?? 0,
});

/** An ended turn of agent mode as a run. */
export const turnRun = (
  { id, endedAt, profile, principal, model, outcome }: EndedTurn,
  imputed: boolean,
): EndedRun => ({
  id,
  kind: "chat",
  endedAt: endedAt.toISOString(),
  status: outcome.ok ? "succeeded" : outcome.reason === null ? "cancelled" : "failed",
  failureReason: outcome.reason,
  profile,
  repoUrl: "",
  model: outcome.model ?? model ?? "",
  principal,
  costUsd: outcome.costUsd ?? 0,
  estimated: outcome.costEstimated,
  imputed,
  ...tokensOf(outcome.usage),
  turns: outcome.numTurns ?? 0,
  durationMs: outcome.durationMs,
});

const tokensOf = (usage: JobRecord["usage"]) => ({
  inputTokens: usage?.input_tokens ?? 0,
  outputTokens: usage?.output_tokens ?? 0,
  cacheCreationTokens: usage?.cache_creation_input_tokens ?? 0,
  cacheReadTokens: usage?.cache_read_input_tokens ?? 0,
});
