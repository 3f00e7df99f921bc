import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import { Readable } from "node:stream";
import { setInterval } from "node:timers";
import { ClientError } from "../client/client-error.ts";
import { createClient, type Client } from "../client/client.ts";
import { secretValues } from "../config/secrets.ts";
import type { Settings } from "../config/variables.ts";
import { operations, type Operations } from "../contract/operations.ts";
import { createLog, type Log } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { pause } from "../lib/wait.ts";
import { failedBy, toolInput, type Answer } from "../mcp/answer.ts";
import { openStdio } from "../mcp/stdio.ts";
import { holderOf, InstanceHeldError, onLoopback, socketPath, stateDirectory } from "./instance-lock.ts";
import { mcpProgram } from "./mcp-program.ts";
import type { Orchestrator } from "./orchestrator.ts";
import { heartbeat, progressOf, waitingUntil } from "./wait-for-job.ts";

type Running = Pick<Orchestrator, "url" | "mustEnd" | "stop">;

type Start = { settings: Settings; warnings: string[]; env: NodeJS.ProcessEnv };

/**
 * MCP on stdin and stdout. Each client starts a process, but a directory of jobs belongs to one service. So the calls of
 * a process are answered in one of three ways:
 *
 * | by | when | until |
 * |---|---|---|
 * | this process | no other one has the directory | its client leaves; it listens on a Unix socket for later processes |
 * | another client's process | that one has the directory | it ends: at its next call, or within 2 s, this process becomes the service, or passes on to the next one |
 * | a service with a URL | that one has the directory | its client leaves |
 *
 * @param signal aborted: the start is abandoned
 */
export const startStdio = async (start: Start, signal: AbortSignal): Promise<Running> => {
  const { settings, env, warnings } = start;
  const log = createLog(settings.logLevel, createRedactor(secretValues(settings, env)));
  const stopping = new AbortController();
  const mustEnd = new AbortController();
  let backend = await join(start, log, signal);
  let moving: Promise<void> | null = null;
  const own = (): Orchestrator | null => backend.orchestrator;
  const follow = (): void =>
    own()?.mustEnd.addEventListener("abort", () => mustEnd.abort(own()?.mustEnd.reason), { once: true });
  follow();
  if (own() === null) for (const warning of warnings) log.warn(warning);

  /** Replaces the backend that has ended, once for all its calls: a second move would lead to this process itself. */
  const moveOn = (from: Backend): Promise<void> =>
    (moving ??= (async () => {
      if (backend !== from) return;
      backend = await join(start, log, stopping.signal);
      follow();
    })().finally(() => (moving = null)));

  const answer: Answer = async (name, given, context) => {
    const until = performance.now() + longestMoveMs;
    for (;;) {
      const asked = backend;
      const answered = await asked.answer(name, given, context);
      const isGone = answered.code === "unreachable" && asked.mayEnd && performance.now() < until;
      if (!isGone || context.signal.aborted || stopping.signal.aborted) return answered;
      // The other process may still be ending.
      await pause(50, stopping.signal);
      await moveOn(asked).catch((error: unknown) =>
        log.warn({ err: error }, "the service could not be taken over"),
      );
    }
  };
  const stdio = openStdio({
    program: mcpProgram({ agent: settings.agentMode }),
    newAnswer: (inputEnd) => waitingUntil(inputEnd, answer),
    log,
    newRequestId: randomUUID,
  });
  stdio.clientLeft.addEventListener("abort", () => mustEnd.abort(), { once: true });

  const watching = (async () => {
    while (!stopping.signal.aborted) {
      await pause(lookEveryMs, stopping.signal);
      const watched = backend;
      if (!watched.mayEnd || stopping.signal.aborted) continue;
      // A failure is told by the next call.
      if (await watched.hasEnded().catch(() => false)) await moveOn(watched).catch(() => undefined);
    }
  })();
  return {
    url: null,
    mustEnd: mustEnd.signal,
    stop: async (how) => {
      stopping.abort();
      await watching;
      await moving?.catch(() => undefined);
      await own()?.stop(how);
      await stdio.close();
    },
  };
};

/** How long a call waits for a process that is ending, ms: it ends its agents first. */
const longestMoveMs = 20_000;

/** How often a process looks whether the one that it passes on to has ended, ms. */
const lookEveryMs = 2000;

/** What answers the calls of this process. */
type Backend = {
  answer: Answer;
  /** This process is the service; null: another one is. */
  orchestrator: Orchestrator | null;
  /** It is another client's process, whose place is taken when it ends. */
  mayEnd: boolean;
  hasEnded: () => Promise<boolean>;
};

/** Becomes the service, or finds the one that has the directory. Tries again when that one has ended since. */
const join = async (start: Start, log: Log, signal: AbortSignal): Promise<Backend> => {
  const { settings } = start;
  const directory = stateDirectory(settings);
  const holder = await holderOf(directory, signal);
  if (holder === null) return (await become(start)) ?? join(start, log, signal);
  const { url } = holder;
  const apiKey = settings.apiKey ?? settings.apiKeys[0];
  const client =
    url === null
      ? createClient({ baseUrl: "http://localhost", fetch: fetchThrough(socketPath(directory)) })
      : createClient({ baseUrl: onLoopback(url), apiKey });
  log.info({ url }, "serving on stdin and stdout for the service that runs already");
  return {
    answer: answerThrough({ client, log }),
    orchestrator: null,
    mayEnd: url === null,
    hasEnded: async () => (await holderOf(directory, signal)) === null,
  };
};

/** Starts the service in this process. Returns null when another process was faster. */
const become = async (start: Start): Promise<Backend | null> => {
  const { startOrchestrator } = await import("./orchestrator.ts");
  try {
    const orchestrator = await startOrchestrator(start);
    if (orchestrator.answer === null) throw new Error("the service has no answer for stdin");
    return { answer: orchestrator.answer, orchestrator, mayEnd: false, hasEnded: async () => false };
  } catch (error) {
    if (error instanceof InstanceHeldError) return null;
    throw error;
  }
};

type Dependencies = { client: Client; log: Log };

/** Answers by asking the service; its failures are passed on unchanged. */
const answerThrough =
  ({ client, log }: Dependencies): Answer =>
  async (name, given, context) => {
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

type Polling = { name: string; given: Record<string, unknown>; progress: (message: string) => void };

/** REST has no progress messages: polls the job; other calls are only reported as in flight. Returns what stops it. */
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

/** `fetch` over a Unix socket: as much of it as the client uses. */
const fetchThrough =
  (socket: string): typeof fetch =>
  async (input, init = {}) => {
    const { pathname, search } = new URL(input instanceof Request ? input.url : input);
    const { method = "GET", headers, body, signal } = init;
    const asked = request({
      socketPath: socket,
      path: pathname + search,
      method,
      headers: Object.fromEntries(new Headers(headers)),
      ...(signal && { signal }),
    });
    asked.end(typeof body === "string" ? body : undefined);
    const [response] = (await once(asked, "response")) as [IncomingMessage];
    return new Response(Readable.toWeb(response) as ReadableStream<Uint8Array>, {
      status: response.statusCode ?? 500,
      headers: Object.entries(response.headers).map(([name, value]) => [name, String(value)]),
    });
  };
