import { ClientError } from "../../client/client-error.ts";
import type { Client } from "../../client/client.ts";
import type { JobEvent } from "../../contract/event.ts";
import { delay } from "../../client/delay.ts";
import { asksPerson, isFinal, type Job } from "../../contract/job.ts";
import { answerHere } from "../answering.ts";
import { CliError, exitCode, type ExitCode } from "../failure.ts";
import { interruptible } from "../interruption.ts";
import { layoutOf, note, print, printJson } from "../print.ts";
import { jobSummary } from "../../view/job.ts";
import { duration } from "../../view/columns.ts";
import { oneLine } from "../../view/sanitise.ts";
import { askedText } from "../../view/waiting.ts";
import { chooseView, quietView } from "./view.ts";

type Wait = { client: Client; job: Job; json: boolean };

/**
 * Shows the job until it has ended, then its summary; `json`: the final body on stdout, the progress on a terminal
 * only. What it asks is asked on the terminal; without one it is shown, and this is the end.
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
    const answer: Answering = async (asking, over) => {
      if (json || !process.stdin.isTTY || !process.stdout.isTTY) return false;
      view.pause();
      return await answerHere(client, asking, over).finally(view.resume);
    };
    const follow = { client, jobId: job.id, signal, onEvent, onNote: view.note };
    const last = await followAnswering(follow, answer).finally(view.close);
    if (json) printJson({ success: true, job: last });
    else if (isFinal(last.status)) print(`\n${jobSummary(last, layoutOf(process.stdout))}`);
    return exitOf(last);
  };
  return await interruptible(work, () => note(left));
};

/** The event log of a job, one JSON object a line, until the job has ended. */
export const printEvents = async (client: Client, jobId: string): Promise<ExitCode> => {
  const onEvent = (event: unknown): void => print(JSON.stringify(event));
  return await interruptible(async (signal) =>
    exitOf(await followAnswering({ client, jobId, signal, onEvent, onNote: note })),
  );
};

/** What a job that waits asks is noted. */
export const exitOf = (job: Job): ExitCode => {
  if (isFinal(job.status)) return job.status === "succeeded" ? exitCode.ok : exitCode.failure;
  note(askedText(job));
  return exitCode.waiting;
};

/** Has a person answer what the job waits for, until the signal aborts; false: nobody does. */
type Answering = (job: Job, signal: AbortSignal) => Promise<boolean>;

/** As `followJob`, but ends with a job that waits for an answer which nobody here gives. */
export const followAnswering = async (
  follow: Follow,
  answer: Answering = async () => false,
): Promise<Job> => {
  const stop = new AbortController();
  const signal = AbortSignal.any([follow.signal, stop.signal]);
  let seen = 0;
  const onEvent = (event: JobEvent): void => {
    if (event.seq <= seen) return;
    seen = event.seq;
    follow.onEvent(event);
  };
  const both = [
    followJob({ ...follow, onEvent, signal }),
    untilUnanswered({ ...follow, onEvent, signal }, answer),
  ];
  try {
    return await Promise.race(both);
  } finally {
    stop.abort();
  }
};

/** Milliseconds between two questions to the service, which holds each until there is something to tell. */
const pauseMs = 500;

/** Resolves to the job when it waits for an answer that nobody here gives; never for one that ends. */
const untilUnanswered = async (follow: Follow, answer: Answering): Promise<Job> => {
  const { client, jobId, signal, onEvent, onNote } = follow;
  let told = "";
  for (;;) {
    const problem = await problemOf(client, signal);
    if (problem !== "" && problem !== told) onNote(problem);
    told = problem;
    // A failure is told by who follows the events.
    const job = await client.wait_for_job({ job_id: jobId, timeout: 50 }, { signal }).then(
      (found) => found.job,
      () => null,
    );
    if (job !== null && asksPerson(job.waiting)) {
      // A question is understood by what the agent said before.
      for await (const event of client.eventsSoFar(jobId, { signal })) onEvent(event);
      if (!(await answer(job, signal))) return job;
    }
    if (job !== null && isFinal(job.status)) return await new Promise(() => undefined);
    await delay(pauseMs, signal);
  }
};

/** What keeps the service from its work meanwhile, such as a disk that an agent has filled; empty: nothing is known. */
const problemOf = async (client: Client, signal: AbortSignal): Promise<string> => {
  const { checks } = await client
    .ready({ signal: AbortSignal.any([signal, AbortSignal.timeout(5000)]) })
    .catch(() => ({ checks: [] }));
  const fault = checks.find(({ name, status }) => name === "disk" && status === "fault");
  return fault === undefined ? "" : `The service cannot go on: ${oneLine(fault.message)}`;
};

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
