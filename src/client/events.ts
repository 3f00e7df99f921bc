import { setTimeout as delay } from "node:timers/promises";
import type { JobEvent } from "../contract/event.ts";
import type { Job } from "../contract/job.ts";
import { ClientError } from "./client-error.ts";
import { messages, type Transport } from "./transport.ts";

export type Follow = {
  /** Only events with a greater number; default 0, from the beginning. */
  after?: number;
  signal?: AbortSignal;
  /** How long to try to reach the service again before giving up; default a minute. */
  patienceMs?: number;
};

/**
 * Follows a job through broken connections and restarts of the service. Every event comes once, in order. The first
 * connection has to succeed; a later one is tried again until the patience is over.
 */
export async function* followEvents(
  transport: Transport,
  jobId: string,
  { after = 0, signal, patienceMs = 60_000 }: Follow,
): AsyncGenerator<JobEvent, Job, void> {
  const retries = createRetries(patienceMs);
  let last = after;
  for (;;) {
    try {
      const connection = {
        method: "GET",
        target: `/jobs/${encodeURIComponent(jobId)}/events`,
        headers: last > 0 ? { "last-event-id": String(last) } : {},
        signal,
        onOpen: retries.connected,
      };
      for await (const message of messages(transport, connection)) {
        if (message.event === "end") return (JSON.parse(message.data) as { job: Job }).job;
        const event = JSON.parse(message.data) as JobEvent;
        retries.progressed();
        if (event.seq <= last) continue;
        last = event.seq;
        yield event;
      }
      await retries.wait(undefined, signal);
    } catch (error) {
      signal?.throwIfAborted();
      await retries.wait(error, signal);
    }
  }
}

/** When to try again, and when to give up. */
const createRetries = (patienceMs: number) => {
  let everConnected = false;
  let brokenSince: number | undefined;
  let waits = 0;
  return {
    connected: (): void => {
      everConnected = true;
      brokenSince = undefined;
    },
    progressed: (): void => {
      waits = 0;
    },
    /** Waits before the next try. Rejects with `error` when there is no point in one. */
    wait: async (error: unknown, signal: AbortSignal | undefined): Promise<void> => {
      brokenSince ??= performance.now();
      const lost = performance.now() - brokenSince > patienceMs;
      if (error instanceof Error && (!everConnected || lost || isRefusal(error))) throw error;
      await delay(pause(waits, error), undefined, { signal });
      waits += 1;
    },
  };
};

/** The service has said no, and will say so again. */
const isRefusal = (error: unknown): boolean =>
  error instanceof ClientError && error.status >= 400 && error.status < 500;

/** Milliseconds: what the service asks for, else a quarter second, doubled each time up to ten seconds. */
const pause = (waits: number, error: unknown): number => {
  const asked = error instanceof ClientError ? error.retryAfter : undefined;
  if (asked !== undefined) return Math.min(asked, 30) * 1000;
  return Math.min(10_000, 250 * 2 ** Math.min(waits, 10)) * (0.75 + Math.random() / 2);
};
