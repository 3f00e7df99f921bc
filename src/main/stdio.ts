import { randomUUID } from "node:crypto";
import { secretValues } from "../config/secrets.ts";
import type { Settings } from "../config/variables.ts";
import { createLog, type Log } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { openStdio } from "../mcp/stdio.ts";
import { holderOf, InstanceHeldError, type Holder, stateDirectory } from "./instance-lock.ts";
import type { Orchestrator } from "./orchestrator.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { mcpProgram } from "./mcp-program.ts";
import { setInterval } from "node:timers";
import { ClientError } from "../client/client-error.ts";
import { createClient, type Client } from "../client/client.ts";
import { failedBy, toolInput, type Answer } from "../mcp/answer.ts";
import { heartbeat, progressOf, waitingUntil } from "./wait-for-job.ts";

type Start = { settings: Settings; warnings: string[]; env: NodeJS.ProcessEnv };

/**
 * MCP on stdin and stdout. Each client starts a process, but a directory of jobs belongs to one service: the first
 * process is that service; later ones pass calls on to it over HTTP, if it listens.
 * @param signal aborted: the start is abandoned
 */
export const startStdio = async (start: Start, signal: AbortSignal): Promise<Orchestrator> => {
  const { settings, env } = start;
  const directory = stateDirectory(settings);
  const log = createLog(settings.logLevel, createRedactor(secretValues(settings, env)));
  const held = (): Promise<Holder | null> =>
    holderOf(directory, signal, ({ pid }, seconds) => {
      const what = "another process uses the job records and serves another client on its stdin";
      log.warn({ pid, jobs_dir: directory }, `${what}: waiting up to ${seconds} s for it to end`);
    });
  let holder = await held();
  if (holder === null) {
    const { startOrchestrator } = await import("./orchestrator.ts");
    try {
      return await startOrchestrator(start);
    } catch (error) {
      // Another process was faster.
      if (!(error instanceof InstanceHeldError)) throw error;
      holder = await held();
    }
  }
  if (holder === null) throw new Error(`The service that used ${directory} has just ended; start again`);
  if (holder.url === null) {
    throw new Error(
      `Process ${holder.pid} uses ${directory} and serves another client on its stdin: run svc serve with SERVICE_TRANSPORT=sse, and each client's stdio process will pass on to it; or set SERVICE_JOBS_DIR to a directory of its own`,
    );
  }
  return startFront(start, log, holder.url);
};

const startFront = ({ settings, warnings }: Start, log: Log, url: string): Orchestrator => {
  for (const warning of warnings) log.warn(warning);
  const answer = answerThrough({ url, apiKey: settings.apiKey ?? settings.apiKeys[0], log });
  const program = mcpProgram({ agent: settings.agentMode });
  const newAnswer = (inputEnd: AbortSignal): Answer => waitingUntil(inputEnd, answer);
  const stdio = openStdio({ program, newAnswer, log, newRequestId: randomUUID });
  log.info({ url }, "serving on stdin and stdout for the service that runs already");
  return { url: null, mustEnd: stdio.clientLeft, stop: stdio.close };
};

type Dependencies = { url: string; apiKey: string | undefined; log: Log };

/** Answers by asking the service at `url`; its failures are passed on unchanged. */
const answerThrough = ({ url, apiKey, log }: Dependencies): Answer => {
  const client = createClient({ baseUrl: reachable(url), apiKey });
  return async (name, given, context) => {
    const { signal, idempotencyKey, progress } = context;
    // The client is typed per operation; the compiler loses that in a lookup.
    const known = name as keyof Operations;
    const ask = client[known] as (input: unknown, options: object) => ReturnType<Client[typeof known]>;
    const stopPolling = progress === undefined ? null : pollProgress(client, { name, given, progress });
    try {
      const input = toolInput(operations[known], given);
      return {
        body: await ask(input, { signal, ...(idempotencyKey !== undefined && { idempotencyKey }) }),
        code: null,
      };
    } catch (error) {
      if (!(error instanceof ClientError)) return failedBy(error, context, log);
      const { message, code } = error;
      return { body: { success: false, error: message, code }, code };
    } finally {
      stopPolling?.();
    }
  };
};

type Polling = { name: string; given: Record<string, unknown>; progress: (message: string) => void };

/**
 * REST has no progress messages: polls the job instead, and for other calls only reports that they are in flight.
 * Returns a function that stops it.
 */
const pollProgress = (client: Client, { name, given, progress }: Polling): (() => void) => {
  const { job_id } = given;
  const poll = async (): Promise<void> => {
    if (name !== "wait_for_job" || typeof job_id !== "string") return progress(`waiting for ${name}`);
    const { job } = await client.get_job({ job_id });
    progress(progressOf(job));
  };
  // The answer to the call itself reports faults of the service.
  const pollQuietly = (): void => void poll().catch(() => undefined);
  pollQuietly();
  const timer = setInterval(pollQuietly, heartbeat);
  return () => clearInterval(timer);
};

/** A service that listens on all addresses is reached on loopback. */
const reachable = (url: string): string =>
  url.replace("//0.0.0.0:", "//127.0.0.1:").replace("//[::]:", "//[::1]:");
