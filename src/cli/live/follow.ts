import { setTimeout as delay } from "node:timers/promises";
import { ClientError } from "../../client/client-error.ts";
import type { Client } from "../../client/client.ts";
import type { JobEvent } from "../../contract/event.ts";
import type { Job } from "../../contract/job.ts";
import { CliError } from "../failure.ts";
import { duration } from "../text/duration.ts";

type Follow = {
  client: Client;
  jobId: string;
  signal: AbortSignal;
  onEvent: (event: JobEvent) => void;
  onNote: (text: string) => void;
  /** How long the service may be away, ms. */
  patienceMs?: number;
};

const defaultPatienceMs = 10 * 60_000;

/** Outages shorter than this (a restart) are nobody's business. */
const unnoticedMs = 1500;

/**
 * Hands over each event of the job once, until the job has ended, also across restarts of the service.
 * @throws CliError when the service is away for longer than the patience, ClientError when it says no
 */
export const followJob = async (follow: Follow): Promise<Job> => {
  const { client, jobId, signal, onEvent } = follow;
  let after = 0;
  for (;;) {
    try {
      const events = client.events(jobId, { after, signal, patienceMs: unnoticedMs });
      for (;;) {
        const next = await events.next();
        if (next.done === true) return next.value;
        after = next.value.seq;
        onEvent(next.value);
      }
    } catch (error) {
      signal.throwIfAborted();
      if (!isOutage(error)) throw error;
      await reachable(follow, error);
    }
  }
};

const reachable = async (follow: Follow, outage: ClientError): Promise<void> => {
  const { client, jobId, signal, onNote, patienceMs = defaultPatienceMs } = follow;
  const since = performance.now();
  onNote(`The service is away (${outage.message}); trying again for up to ${duration(patienceMs)}`);
  let last = outage;
  for (let wait = 500; ; wait = Math.min(wait * 2, 5000)) {
    const left = patienceMs - (performance.now() - since);
    if (left <= 0) {
      throw new CliError(
        `The service has been away for ${duration(patienceMs)} (${last.message}). What became of the job tells: svc job ${jobId}`,
        { code: last.code, cause: last },
      );
    }
    await delay(Math.min(wait, left), undefined, { signal });
    try {
      await client.get_job({ job_id: jobId }, { signal });
      onNote("The service answers again");
      return;
    } catch (error) {
      signal.throwIfAborted();
      if (!isOutage(error)) throw error;
      last = error;
    }
  }
};

/** No answer, or one that says "not now"; any other refusal will be the same next time. */
const isOutage = (error: unknown): error is ClientError =>
  error instanceof ClientError && (error.status === 0 || error.status === 429 || error.status >= 500);
