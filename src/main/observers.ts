import type { ObserveTurn } from "../chat/engine.ts";
import type { JobRecord } from "../store/job-record.ts";
import type { createMetrics } from "../telemetry/metrics.ts";
import type { createBookings } from "./bookings.ts";
import type { Tracing } from "./tracing.ts";

type Sinks = {
  metrics: Pick<ReturnType<typeof createMetrics>, "jobEnded">;
  bookings: Pick<ReturnType<typeof createBookings>, "jobEnded" | "turnEnded">;
  tracing: Tracing | null;
};

/** Hands each ended job and each turn of agent mode to metrics, usage and tracing. */
export const createObservers = ({ metrics, bookings, tracing }: Sinks) => ({
  onEnded: (record: JobRecord): void => {
    metrics.jobEnded(record);
    bookings.jobEnded(record);
    tracing?.jobEnded(record);
  },
  observeTurn: ((turn) => {
    const traced = tracing?.observeTurn(turn);
    return {
      events: (events) => traced?.events(events),
      ended: (ended) => {
        bookings.turnEnded(ended);
        traced?.ended(ended);
      },
    };
  }) satisfies ObserveTurn,
});
