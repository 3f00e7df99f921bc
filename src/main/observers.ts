import type { ObserveTurn } from "../chat/engine.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { createMetrics } from "../telemetry/metrics.ts";
import type { TelemetrySink } from "../telemetry/sink.ts";
import { jobRun, turnRun } from "./telemetry.ts";
import type { Tracing } from "./tracing.ts";

type Sinks = {
  metrics: Pick<ReturnType<typeof createMetrics>, "jobEnded">;
  telemetry: Pick<TelemetrySink, "addRun">;
  tracing: Tracing | null;
  /** Costs are computed, not billed. */
  imputed: boolean;
};

/** Hands each ended job and each turn of agent mode to metrics, usage and tracing. */
export const createObservers = ({ metrics, telemetry, tracing, imputed }: Sinks) => ({
  onEnded: (record: JobRecord): void => {
    metrics.jobEnded(record);
    void telemetry.addRun(jobRun(record, imputed));
    tracing?.jobEnded(record);
  },
  observeTurn: ((turn) => {
    const traced = tracing?.observeTurn(turn);
    return {
      event: (event) => traced?.event(event),
      ended: (ended) => {
        void telemetry.addRun(turnRun(ended, imputed));
        traced?.ended(ended);
      },
    };
  }) satisfies ObserveTurn,
});
