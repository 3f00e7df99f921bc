import type { Client } from "../../client/client.ts";
import type { JobEvent } from "../../contract/event.ts";
import type { Job } from "../../contract/job.ts";
import { isOutage, sitOut } from "./outage.ts";

type Follow = {
  client: Client;
  jobId: string;
  signal: AbortSignal;
  onEvent: (event: JobEvent) => void;
  onNote: (text: string) => void;
  /** How long the service may be away, ms. */
  patienceMs?: number;
};

/** Outages shorter than this (a restart) are nobody's business. */
const unnoticedMs = 1500;

/**
 * Hands over each event of the job once, until the job has ended, also across restarts of the service.
 * @throws CliError when the service is away for longer than the patience, ClientError when it says no
 */
export const followJob = async (follow: Follow): Promise<Job> => {
  const { client, jobId, signal, onEvent, onNote, patienceMs } = follow;
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
      await sitOut(error, {
        probe: () => client.get_job({ job_id: jobId }, { signal }),
        signal,
        onNote,
        later: `What became of the job tells: svc job ${jobId}`,
        patienceMs,
      });
    }
  }
};
