import { hash } from "node:crypto";
import { join } from "node:path";
import { redactDeep } from "../lib/redact.ts";
import { openPostgres } from "../telemetry/postgres.ts";
import type { TelemetrySink } from "../telemetry/sink.ts";
import { createSqlSink } from "../telemetry/sql-sink.ts";
import { openSqlite } from "../telemetry/sqlite.ts";
import { startRetention } from "./retention.ts";
import type { ServiceContext } from "./context.ts";

type Options = {
  /** Of this instance alone. */
  directory: string;
  /** Counts records of agents that are not stored. */
  dropped: (records: number) => void;
};

/** The sink of the service, and the retention of what it holds. */
export const openTelemetry = (
  { settings, redact, now, log }: Pick<ServiceContext, "settings" | "redact" | "now" | "log">,
  { directory, dropped }: Options,
): TelemetrySink => {
  const { telemetryDb: url, telemetryRetention } = settings;
  const sink = createSqlSink({
    open: () => (url === null ? openSqlite(join(directory, "telemetry.db")) : openPostgres(url)),
    now,
  });
  const before = (seconds: number): Date => new Date(now().getTime() - seconds * 1000);
  const retention = startRetention({ now, log }, 600_000, async (signal, isSure) => {
    if (isSure)
      await sink.prune({ telemetry: before(telemetryRetention), runs: before(runRetention) }, signal);
  });

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
