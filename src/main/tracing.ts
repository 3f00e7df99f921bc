import { randomUUID } from "node:crypto";
import { join } from "node:path";
import pLimit from "p-limit";
import type { ObserveTurn } from "../chat/engine.ts";
import type { Settings } from "../config/variables.ts";
import type { Log } from "../lib/log.ts";
import { redactDeep, type Redactor } from "../lib/redact.ts";
import { orAborted } from "../lib/wait.ts";
import type { EventLog } from "../store/event-log.ts";
import { toJob, type JobRecord } from "../store/job-record.ts";
import type { Span } from "../telemetry/sink.ts";
import { openSpool } from "../telemetry/spool.ts";
import { createTurnTrace, jobTrace } from "../telemetry/trace.ts";
import { sendSpans, tracingBackend } from "../telemetry/tracing.ts";

type Dependencies = {
  settings: Settings;
  service: { name: string; version: string };
  events: Pick<EventLog, "read">;
  /** Of this instance alone. */
  directory: string;
  redact: Redactor;
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
  const { settings, service, events, directory, redact, now, log } = deps;
  const backend = tracingBackend(settings);
  if (backend === null) return null;
  const contents = { prompts: settings.otelLogPrompts, tools: settings.otelLogToolDetails };
  const spool = await openSpool<Span[]>({
    directory: join(directory, "traces"),
    maxBytes: maxSpooledBytes,
    deliver: (spans) => sendSpans(backend, spans, service),
    what: "traces",
    now,
    log,
  });
  const ship = (spans: Span[]): Promise<void> => spool.add(redactDeep(spans, redact));
  const building = pLimit(2);
  const running = new Set<Promise<void>>();
  const inBackground = (work: () => Promise<void>): void => {
    if (running.size >= maxRunning) return log.warn("a trace is lost: too many are being made");
    const done = building(work)
      .catch((err: unknown) => log.warn({ err }, "a trace could not be made"))
      .finally(() => running.delete(done));
    running.add(done);
  };

  return {
    jobEnded: (record) =>
      inBackground(async () => {
        const read = events.read(record.id, 0, AbortSignal.timeout(readMs));
        await ship(await jobTrace(toJob(record), read, contents));
      }),
    observeTurn: ({ agent, prompt }) => {
      const id = randomUUID();
      const trace = createTurnTrace({ id, agent, prompt, startedAt: now().toISOString(), contents });
      return {
        event: (event) => trace.take(event, now().toISOString()),
        ended: ({ outcome, endedAt, model }) =>
          inBackground(() =>
            ship(
              trace.end({
                endedAt: endedAt.toISOString(),
                sessionId: outcome.sessionId,
                error: !outcome.ok,
                model: outcome.model ?? model,
                output: outcome.text,
                usage: outcome.usage,
                costUsd: outcome.costUsd,
              }),
            ),
          ),
      };
    },
    close: async () => {
      await orAborted(Promise.all(running), AbortSignal.timeout(closeMs)).catch(() => undefined);
      await spool.close();
    },
  };
};

const maxSpooledBytes = 256 * 1_048_576;

/** Traces that are being made, or wait for it. */
const maxRunning = 1000;

/** Longest wait for the last events of an ended job. */
const readMs = 60_000;

const closeMs = 3000;
