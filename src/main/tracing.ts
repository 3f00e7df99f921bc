import pLimit from "p-limit";
import type { ObserveTurn } from "../chat/engine.ts";
import type { Settings } from "../config/variables.ts";
import type { Log } from "../lib/log.ts";
import type { Redactor } from "../lib/redact.ts";
import { orAborted } from "../lib/wait.ts";
import type { EventLog } from "../store/event-log.ts";
import { toJob, type JobRecord } from "../store/job-record.ts";
import { traceJob, traceTurn } from "../telemetry/trace.ts";
import { createTracer, tracingBackend } from "../telemetry/tracing.ts";

type Dependencies = {
  settings: Settings;
  service: { name: string; version: string };
  events: Pick<EventLog, "read">;
  redact: Redactor;
  /** Counts what the backend does not get. */
  dropped: (spans: number) => void;
  now: () => Date;
  log: Log;
};

export type Tracing = {
  /** Ships the trace of an ended job in the background. */
  jobEnded: (record: JobRecord) => void;
  observeTurn: ObserveTurn;
  close: () => Promise<void>;
};

/** Ships what agents did to the tracing backend; null: none is set. Nothing waits for the backend. */
export const openTracing = async (deps: Dependencies): Promise<Tracing | null> => {
  const { settings, events, dropped, now, log } = deps;
  const backend = tracingBackend(settings);
  if (backend === null) return null;
  const tracer = await createTracer({ ...deps, backend });
  const contents = { prompts: settings.otelLogPrompts, tools: settings.otelLogToolDetails };
  const atOnce = pLimit(2);
  const made = new Set<Promise<void>>();

  return {
    jobEnded: (record) => {
      if (made.size >= maxWaiting) return dropped(1);
      const done = atOnce(() =>
        traceJob(
          tracer.start,
          toJob(record),
          events.read(record.id, 0, AbortSignal.timeout(readMs)),
          contents,
        ),
      )
        .catch((err: unknown) => log.warn({ err }, "a trace could not be made"))
        .finally(() => made.delete(done));
      made.add(done);
    },
    observeTurn: ({ agent, prompt }) => {
      const trace = traceTurn(tracer.start, { agent, prompt, at: now().toISOString(), contents });
      return {
        event: (event) => trace.take(event, now().toISOString()),
        ended: ({ outcome, endedAt, model }) =>
          trace.end(endedAt.toISOString(), {
            isError: !outcome.ok,
            model: outcome.model ?? model,
            output: outcome.text,
            usage: outcome.usage,
            costUsd: outcome.costUsd,
            sessionId: outcome.sessionId,
          }),
      };
    },
    close: async () => {
      const closing = AbortSignal.timeout(closeMs);
      await orAborted(Promise.all(made).then(tracer.close), closing).catch(() => undefined);
    },
  };
};

/** Jobs whose traces are being made, or wait for it. */
const maxWaiting = 1000;

/** Longest wait for the last events of an ended job. */
const readMs = 60_000;

const closeMs = 3000;
