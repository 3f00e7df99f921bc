import { setTimeout as delay } from "node:timers/promises";
import type { JobEvent } from "../contract/event.ts";
import type { Job } from "../contract/job.ts";
import { ClientError } from "./client-error.ts";
import { messages, type Transport } from "./transport.ts";

export type Follow = {
  /** Only events with a greater number; default 0, from the beginning. */
  after?: number;
  signal?: AbortSignal;
  /** How long to try to reach the service again; default a minute. */
  patienceMs?: number;
};

/**
 * Follows a job through broken connections and restarts of the service. Every event comes once, in order. The first
 * connection must succeed; later ones are retried until the patience is over.
 */
export async function* followEvents(
  transport: Transport,
  jobId: string,
  { after = 0, signal, patienceMs = 60_000 }: Follow,
): AsyncGenerator<JobEvent, Job, void> {
  let last = after;
  let everConnected = false;
  let brokenSince: number | undefined;
  let waits = 0;
  const onOpen = (): void => {
    everConnected = true;
    brokenSince = undefined;
  };
  for (;;) {
    let failure: unknown;
    try {
      const target = `/jobs/${encodeURIComponent(jobId)}/events`;
      const headers = last > 0 ? { "last-event-id": String(last) } : {};
      for await (const message of messages(transport, { method: "GET", target, headers, signal, onOpen })) {
        if (message.event === "end") return (JSON.parse(message.data) as { job: Job }).job;
        const event = JSON.parse(message.data) as JobEvent;
        waits = 0;
        if (event.seq <= last) continue;
        last = event.seq;
        yield event;
      }
    } catch (error) {
      signal?.throwIfAborted();
      failure = error;
    }
    brokenSince ??= performance.now();
    if (isFinal(failure, everConnected && performance.now() - brokenSince <= patienceMs)) throw failure;
    await delay(pause(waits, failure), undefined, { signal });
    waits += 1;
  }
}

/** Whether a retry is useless: the patience is over, or the service refuses for good. */
const isFinal = (failure: unknown, patient: boolean): failure is Error =>
  failure instanceof Error &&
  (!patient || (failure instanceof ClientError && failure.status >= 400 && failure.status < 500));

/** Milliseconds: what the service asks for, else a quarter second, doubled each time up to ten seconds. */
const pause = (waits: number, error: unknown): number => {
  const asked = error instanceof ClientError ? error.retryAfter : undefined;
  if (asked !== undefined) return Math.min(asked, 30) * 1000;
  return Math.min(10_000, 250 * 2 ** Math.min(waits, 10)) * (0.75 + Math.random() / 2);
};
