import { ClientError } from "../../client/client-error.ts";
import type { Client } from "../../client/client.ts";
import type { JobEvent } from "../../contract/event.ts";
import type { Job } from "../../contract/job.ts";
import { CliError, exitCode, type ExitCode } from "../failure.ts";
import { interruptible } from "../interruption.ts";
import { layoutOf, note, print, printJson } from "../print.ts";
import { jobSummary } from "../../view/job.ts";
import { duration } from "../../view/columns.ts";
import { chooseView, quietView } from "./view.ts";

type Wait = { client: Client; job: Job; json: boolean };

/**
 * Shows the job until it has ended, then its summary; `json`: the final body on stdout, the progress on a terminal
 * only.
 */
export const waitForJob = async ({ client, job, json }: Wait): Promise<ExitCode> => {
  const stream = json ? process.stderr : process.stdout;
  const view =
    json && !stream.isTTY ? quietView(stream) : await chooseView(stream, Date.parse(job.created_at));
  // The summary has the warnings.
  const onEvent = (event: JobEvent): void => {
    if (event.type !== "warning" || event.dropped_block !== undefined || json) view.event(event);
  };
  const id = job.id.slice(0, 8);
  const left = `\nNo longer waiting; the job continues.\nFollow it:  svc logs -f ${id}\nCancel it:  svc cancel ${id}`;
  const work = async (signal: AbortSignal): Promise<ExitCode> => {
    const ended = await followJob({ client, jobId: job.id, signal, onEvent, onNote: view.note }).finally(
      view.close,
    );
    if (json) printJson({ success: true, job: ended });
    else print(`\n${jobSummary(ended, layoutOf(process.stdout))}`);
    return exitOf(ended);
  };
  return await interruptible(work, () => note(left));
};

/** The event log of a job, one JSON object a line, until the job has ended. */
export const printEvents = async (client: Client, jobId: string): Promise<ExitCode> => {
  const onEvent = (event: unknown): void => print(JSON.stringify(event));
  return await interruptible(async (signal) =>
    exitOf(await followJob({ client, jobId, signal, onEvent, onNote: note })),
  );
};

const exitOf = ({ status }: Job): ExitCode => (status === "succeeded" ? exitCode.ok : exitCode.failure);

type Follow = {
  client: Client;
  jobId: string;
  signal: AbortSignal;
  onEvent: (event: JobEvent) => void;
  onNote: (text: string) => void;
  /** How long the service may be unreachable, ms. */
  patienceMs?: number;
};

/** A shorter outage (a restart) is not mentioned, ms. */
const unnoticedMs = 1500;

/**
 * Calls `onEvent` with each event of the job once, until the job has ended, also across restarts of the service.
 * @throws CliError when the service is unreachable for longer than the patience, ClientError when it refuses
 */
export const followJob = async (follow: Follow): Promise<Job> => {
  const { client, jobId, signal, onEvent, onNote, patienceMs = 10 * 60_000 } = follow;
  const patience = duration(patienceMs);
  let isOut = false;
  const onRetry = (failure: unknown, lostMs: number): void => {
    if (isOut || lostMs < unnoticedMs) return;
    isOut = true;
    const why = failure instanceof Error ? ` (${failure.message})` : "";
    onNote(`The service is unreachable${why}; trying again for up to ${patience}`);
  };
  const events = client.events(jobId, { signal, patienceMs, onRetry });
  try {
    for (;;) {
      const next = await events.next();
      if (isOut) onNote("The service answers again");
      isOut = false;
      if (next.done === true) return next.value;
      onEvent(next.value);
    }
  } catch (error) {
    if (signal.aborted || !isOutage(error)) throw error;
    const message = `The service has been unreachable for ${patience} (${error.message}). Ask later: svc job ${jobId}`;
    throw new CliError(message, { code: error.code, cause: error });
  }
};

/** No answer, or one that says "not now"; any other refusal will be the same next time. */
export const isOutage = (error: unknown): error is ClientError =>
  error instanceof ClientError && (error.status === 0 || error.status === 429 || error.status >= 500);
