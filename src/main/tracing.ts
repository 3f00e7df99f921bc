import pLimit from "p-limit";
import type { ObserveTurn } from "../chat/engine.ts";
import { orAborted } from "../lib/wait.ts";
import type { EventLog } from "../store/event-log.ts";
import { toJob, type JobRecord } from "../store/job-record.ts";
import { traceJob, traceTurn } from "../telemetry/trace.ts";
import { createTracer, tracingBackend } from "../telemetry/tracing.ts";
import type { ServiceContext } from "./context.ts";
import { service } from "./version.ts";

type Dependencies = ServiceContext & {
  events: Pick<EventLog, "read">;
  /** Counts what the backend does not get. */
  dropped: (spans: number) => void;
};

/** Ships what agents did to the tracing backend; null: none is set. Nothing waits for the backend. */
export const openTracing = async (deps: Dependencies) => {
  const { settings, events, dropped, now, log } = deps;
  const backend = tracingBackend(settings);
  if (backend === null) return null;
  const tracer = await createTracer({ ...deps, service, backend });
  const contents = { prompts: settings.otelLogPrompts, tools: settings.otelLogToolDetails };
  const atOnce = pLimit(2);
  const made = new Set<Promise<void>>();

  const trace = async (record: JobRecord): Promise<void> => {
    const read = events.read(record.id, 0, AbortSignal.timeout(readMs));
    await traceJob(tracer.start, toJob(record), read, contents);
  };
  const observeTurn: ObserveTurn = ({ agent, prompt }) => {
    const turn = traceTurn(tracer.start, { agent, prompt, at: now().toISOString(), contents });
    return {
      event: (event) => turn.take(event, now().toISOString()),
      ended: ({ outcome, endedAt, model }) =>
        turn.end(endedAt.toISOString(), {
          isError: !outcome.ok,
          model: outcome.model ?? model,
          output: outcome.text,
          usage: outcome.usage,
          costUsd: outcome.costUsd,
          sessionId: outcome.sessionId,
        }),
    };
  };

  return {
    observeTurn,
    /** Ships the trace of an ended job in the background. */
    jobEnded: (record: JobRecord): void => {
      if (made.size >= maxWaiting) return dropped(1);
      const done = atOnce(trace, record)
        .catch((err: unknown) => log.warn({ err }, "a trace could not be made"))
        .finally(() => made.delete(done));
      made.add(done);
    },
    close: async (): Promise<void> => {
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
