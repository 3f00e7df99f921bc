import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createClient } from "../client/client.ts";
import { bridgeVariables, type BridgeSettings } from "../config/bridge-variables.ts";
import { maskUrl, secretsIn } from "../config/secrets.ts";
import { transcriptOperations, type TranscriptOperations } from "../contract/transcript.ts";
import { serveRoutes } from "../http/app.ts";
import { json, type Route } from "../http/route.ts";
import { listen } from "../http/server.ts";
import { createLog, type Log } from "../lib/log.ts";
import { createRedactor } from "../lib/redact.ts";
import { poll } from "../lib/wait.ts";
import { answerBy, toolInput } from "../mcp/answer.ts";
import { mcpRoutes } from "../mcp/routes.ts";
import { createServerFactory, type McpProgram } from "../mcp/server.ts";
import { openStdio } from "../mcp/stdio.ts";
import { answerBytes } from "../transcripts/answer-size.ts";
import { createTranscriptHandlers } from "../transcripts/handlers.ts";
import type { LiveSession } from "../transcripts/search-handlers.ts";
import { createModels } from "../transcripts/models.ts";
import { openVectors } from "../transcripts/vectors.ts";
import { openTranscripts } from "./transcripts.ts";
import { version } from "./version.ts";
import { whileCollecting } from "./while-collecting.ts";

type Start = {
  settings: BridgeSettings;
  env: NodeJS.ProcessEnv;
  /** Only errors are logged: for commands. */
  quiet?: boolean;
};

/** Opens the store and everything that reads it. Nothing is collected yet. */
export const openBridge = async ({ settings, env, quiet = false }: Start) => {
  const log = createLog(
    quiet ? "error" : settings.logLevel,
    createRedactor(secretsIn(bridgeVariables, settings, env)),
  );
  const transcripts = await openTranscripts(settings, log);
  const vectors = openVectors(join(settings.directory, "vectors.db"));
  const { agentHomes, codexHome, orchestratorUrl: url, orchestratorKey } = settings;
  const handlers = createTranscriptHandlers({
    library: transcripts.index,
    collect: transcripts.collect,
    skipped: transcripts.skipped,
    models: createModels(settings),
    vectors,
    orchestrator: { client: createClient({ baseUrl: url, apiKey: orchestratorKey ?? undefined }), url },
    settings,
    // People read with a pager, models with a budget.
    answerBytes: quiet ? Infinity : answerBytes,
    liveSession: quiet ? "none" : liveSession(settings, env),
    log,
    now: Date.now,
  });
  const { kvUrl } = settings;
  return {
    handlers,
    log,
    /** @throws ServiceError invalid_request */
    inputOf: (name: keyof TranscriptOperations, given: Record<string, unknown>): unknown =>
      toolInput(transcriptOperations[name], given),
    sessionsStartingWith: transcripts.index.sessionsStartingWith,
    /** Brings the index up to date with the files. */
    collect: transcripts.collect,
    progress: transcripts.progress,
    skipped: transcripts.skipped,
    unread: transcripts.index.unread,
    /** Does so until the signal aborts. */
    keepUpToDate: transcripts.keepUpToDate,
    /** What `bridge status` shows. */
    places: {
      store: kvUrl === null ? "SQLite" : maskUrl(kvUrl),
      index: transcripts.path,
      homes: [...agentHomes, codexHome],
      orchestrator: maskUrl(url),
    },
    [Symbol.asyncDispose]: async (): Promise<void> => {
      vectors.close();
      await transcripts.close();
    },
  };
};

export type OpenBridge = Awaited<ReturnType<typeof openBridge>>;

/** Claude Code names its session to the servers that it starts on stdio; over HTTP nothing does. */
const liveSession = ({ transport }: BridgeSettings, env: NodeJS.ProcessEnv): LiveSession => {
  const id = env["CLAUDE_CODE_SESSION_ID"];
  return transport === "stdio" && id !== undefined && id !== "" ? { id } : "unknown";
};

/** Pauses before all files are read again where that failed, ms. Until it has succeeded answers say that more may come. */
const firstLook = { first: 1000, longest: 60_000 };

/** Starts the transcript service. @throws Error with a sentence for the operator */
export const startBridge = async (start: Start & { warnings: readonly string[] }, signal: AbortSignal) => {
  const { settings, warnings } = start;
  const bridge = await openBridge(start);
  const { handlers, log } = bridge;
  for (const warning of warnings) log.warn(warning);
  const closing = new AbortController();
  const ending = AbortSignal.any([closing.signal, signal]);
  // A failure is in the log of the look that follows.
  const first = poll(() => bridge.collect(ending).catch(() => null), { ...firstLook, signal: ending }).catch(
    () => undefined,
  );
  const collecting = bridge.keepUpToDate(ending);
  const byTools = answerBy(transcriptOperations, handlers, log);
  const answer = whileCollecting(byTools, { first, progress: bridge.progress });
  const doors = await openDoors({ settings, log, answer, closing: closing.signal });
  return {
    ...doors,
    stop: async (): Promise<void> => {
      closing.abort();
      await doors.close();
      await Promise.all([first, collecting]);
      await bridge[Symbol.asyncDispose]();
    },
  };
};

type Doors = {
  /** Null: it does not listen on HTTP. */
  url: string | null;
  /** Aborted when the only client has left (stdin has ended). Never for HTTP. */
  clientLeft: AbortSignal;
  close: () => Promise<void>;
};

type DoorsOptions = {
  settings: BridgeSettings;
  log: Log;
  answer: ReturnType<typeof answerBy>;
  closing: AbortSignal;
};

const openDoors = async ({ settings, log, answer, closing }: DoorsOptions): Promise<Doors> => {
  if (settings.transport === "stdio") {
    const stdio = openStdio({ program, newAnswer: () => answer, log, newRequestId: randomUUID });
    return { url: null, clientLeft: stdio.clientLeft, close: stdio.close };
  }
  const newServer = createServerFactory({ program, answer });
  const { host, port, apiKeys, oauthIssuer } = settings;
  // Loaded only where it is used.
  const oauth =
    oauthIssuer === null
      ? null
      : (await import("../oauth/oauth.ts")).createOAuth({
          settings: { ...settings, oauthIssuer },
          keys: apiKeys,
          log,
        });
  const app = serveRoutes(
    [
      health,
      ...mcpRoutes({
        newServer: async () => newServer,
        operations: transcriptOperations,
        under: oauth?.path,
        log,
        closing,
      }),
      ...(oauth?.routes ?? []),
    ],
    {
      log,
      newRequestId: randomUUID,
      ...(oauth !== null && { authenticate: oauth.authenticate, challenge: oauth.challenge }),
      settings: {
        host,
        apiKeys,
        prefix: "BRIDGE",
        ...(oauthIssuer !== null && { publicHost: new URL(oauthIssuer).hostname }),
      },
    },
  );
  const server = await listen(app, { host, port, setBy: { host: "BRIDGE_HOST", port: "BRIDGE_PORT" } });
  return { url: server.url, clientLeft: new AbortController().signal, close: () => server.close(2000) };
};

const health: Route = {
  method: "get",
  path: "/health",
  open: true,
  anyHost: true,
  handle: () => json(200, { status: "ok" }),
};

const program: McpProgram = {
  service: { name: "bridge", title: "Transcripts of coding agents", version },
  operations: transcriptOperations,
  parts: { agent: false },
  instructions: `Everything that coding agents said and did on this machine and in the jobs of the orchestrator: sessions with their prompts, answers, tool calls and results; plans; memory files; the history of prompts.

To find something: search_sessions (words, "phrases", OR, -not, prefix*), then get_session_segment around the hit, or get_session for the end of a session. get_session_actions lists files changed, commands and errors. list_sessions shows what was done last. search_history also knows prompts of sessions whose transcript is no longer there.

To continue work: restore_session gives the last entries as text and the command that resumes the session; dispatch_task hands a task to the job orchestrator, with a session as context; get_dispatch_job tells how it goes.

Every result is JSON with success. Long answers are cut: truncated is true and hint says how to read on. A failure has error, a sentence that says what to do, and code, which is stable. Secrets are masked.`,
};
