import { hash } from "node:crypto";
import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import type { Log } from "../lib/log.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import { openPostgres } from "../telemetry/postgres.ts";
import type { TelemetrySink } from "../telemetry/sink.ts";
import { createSqlSink } from "../telemetry/sql-sink.ts";
import { openSqlite } from "../telemetry/sqlite.ts";
import { createClockCheck } from "./clock-check.ts";
import { startRepeating } from "./retention.ts";

type Dependencies = {
  settings: Pick<Settings, "telemetryDb" | "telemetryRetention">;
  /** Of this instance alone. */
  directory: string;
  redact: Redactor;
  /** Counts records of agents that are not stored. */
  dropped: (records: number) => void;
  now: () => Date;
  log: Log;
};

/** The sink of the service, and the retention of what it holds. */
export const openTelemetry = ({
  settings,
  directory,
  redact,
  dropped,
  now,
  log,
}: Dependencies): TelemetrySink => {
  const { telemetryDb: url, telemetryRetention } = settings;
  const sink = createSqlSink({
    open: () => (url === null ? openSqlite(join(directory, "telemetry.db")) : openPostgres(url)),
    now,
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
    ...sink,
    append: async (batch) => {
      const masked = redactDeep(batch, redact);
      // An exporter that sends a batch again, because the answer was lost, sends the same.
      await sink.append(masked, hash("sha256", JSON.stringify(masked))).catch((err: unknown) => {
        dropped(batch.metrics.length + batch.events.length + batch.spans.length);
        throw err;
      });
    },
    close: async () => {
      await retention.stop();
      await sink.close();
    },
  };
};

/** Seconds: 400 days. */
const runRetention = 34_560_000;
