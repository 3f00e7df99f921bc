import type { TurnPart } from "../agents/agent.ts";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Visibility } from "../contract/visibility.ts";
import type { Log } from "../lib/log.ts";
import type { AgentPackage, LoadedAgent } from "../profiles/agent-package.ts";
import type { EventBus } from "../store/event-bus.ts";
import type { VisibilityStore } from "../store/visibility-store.ts";
import { createAgentVisibility } from "./agent-visibility.ts";
import { conversationOf, type Conversation } from "./conversation-key.ts";
import { statusBefore, statusText } from "./delta.ts";
import type { Engine, EngineTurn, RequireAgent } from "./engine.ts";
import { unknownModel } from "./failure.ts";
import { followTurn, publishEnd } from "./follow-turn.ts";
import { followUpOf, isOfSession, openingOf } from "./prompt.ts";
import { createRetryable } from "./retries.ts";
import { readMessageTokens } from "./slash-tokens.ts";
import { createTurn, instantTurn, type RunningTurn } from "./turn.ts";

/** The port of the chat doors. Every function rejects with `ServiceError` for what the caller may know. */
export type Chat = {
  /** Values of `model`: the loaded agent first, then its tiers and aliases. */
  models: () => Promise<string[]>;
  /**
   * Begins a turn, or joins the turn that this request retries. Refuses here all that can be refused with a status,
   * such as an unknown model or too many turns. The turn reports a conversation that stays busy.
   */
  begin: (request: ChatRequest, caller: Caller) => Promise<ChatTurn>;
  /** An answer without the agent. */
  answer: (request: Pick<ChatRequest, "model" | "includeUsage">, text: string) => ChatTurn;
  visibility: () => Promise<Visibility>;
  /** Changes the flags present, and resolves to all of them. */
  setVisibility: (changes: { [Flag in keyof Visibility]?: boolean | undefined }) => Promise<Visibility>;
  /** Stops a turn of this instance, by the id in its chunks. False: this caller has none in flight by that id. */
  cancel: (id: string, principal: string) => boolean;
};

export type Caller = { principal: string; requestId: string };

export type ChatRequest = {
  model: string;
  stream: boolean;
  includeUsage: boolean;
  /** Texts of system and developer messages, in order. */
  system: readonly string[];
  /** The other messages. The last one is the user's. */
  messages: readonly ChatMessage[];
  /** Seconds; null: the configured limit. */
  timeoutSeconds: number | null;
  effort: "low" | "medium" | "high" | null;
  disabledMcpServers: readonly string[];
  /** Null: as configured. */
  liveText: boolean | null;
  /** The id from the caller; null: none. */
  conversation: { id: string; source: "header" | "metadata" } | null;
  /** X-User-Id: separates conversations of different users. */
  user: string | null;
  /** X-Request-Id from the caller, and whether its client library marks this as a retry. */
  retry: { requestId: string | null; isRetry: boolean };
  /** Digest of the body, equal for a retry. */
  digest: string;
};

/** Consecutive messages may have the same role. */
export type ChatMessage = { role: "user" | "assistant"; content: readonly TurnPart[] };

/** A turn in flight or ended. It runs while somebody reads it; after that the disconnect policy decides. */
export type ChatTurn = {
  /** `chatcmpl-…`. */
  id: string;
  /** How the conversation was found, for the header `X-Service-Conversation-Source`; null: no conversation. */
  conversation: { source: "header" | "metadata" | "hash" | "new"; id: string | null } | null;
  /**
   * Server-sent events from the first one on, in UTF-8: each piece is one or more whole events; the last is `data:
   * [DONE]`. Reports a failure in the stream instead of rejecting. Only for requests with `stream`.
   */
  stream: (signal: AbortSignal) => AsyncGenerator<Uint8Array, void, void>;
  /** The `chat.completion` object as JSON text. Rejects with `ServiceError`. Only for requests without `stream`. */
  whole: (signal: AbortSignal) => Promise<string>;
};

type Dependencies = {
  engine: Pick<Engine, "admit" | "run">;
  agent: Pick<AgentPackage, "name" | "profile" | "read">;
  requireAgent: RequireAgent;
  visibilities: VisibilityStore;
  bus: Pick<EventBus, "publish">;
  settings: Pick<Settings, "agentModeLiveText" | "agentModeOnDisconnect" | "convHashFallback">;
  now: () => Date;
  newId: () => string;
  log: Log;
};

/** A request whose tokens have been removed and applied. */
type CheckedRequest = ChatRequest & {
  visibility: Visibility;
  /** Text before the answer. */
  status: string;
  loaded: LoadedAgent;
  /** Null: the agent's own. */
  cliModel: string | null;
};

export const createChat = (deps: Dependencies): Chat => {
  const { engine, agent, requireAgent, settings, now } = deps;
  const inFlight = new Map<string, { turn: RunningTurn; principal: string }>();
  const retryable = createRetryable<RunningTurn>(() => performance.now());
  const visibility = createAgentVisibility(deps.visibilities, agent.name);

  const headOf = (model: string) => ({
    id: `chatcmpl-${deps.newId().replaceAll("-", "")}`,
    created: Math.floor(now().getTime() / 1000),
    model,
  });

  const start = (request: CheckedRequest, caller: Caller): RunningTurn => {
    const scope = { agent: agent.name, principal: caller.principal };
    const conversation = conversationOf(request, scope, settings.convHashFallback);
    // From here until the turn runs nothing may fail: the permit would leak.
    const release = engine.admit();
    const turn = createTurn({
      ...request,
      head: headOf(request.model),
      liveText: request.liveText ?? settings.agentModeLiveText,
      policy: settings.agentModeOnDisconnect,
      conversation: { source: conversation?.source ?? "new", id: conversation?.id ?? null },
    });
    inFlight.set(turn.id, { turn, principal: caller.principal });
    const ended = retryable.add(turn, request, caller.principal);
    void answer(deps, { turn, request, conversation, caller }).then((ok) => {
      release();
      inFlight.delete(turn.id);
      ended(ok);
    });
    return turn;
  };

  return {
    models: async () => [...(await agent.read()).models],
    begin: async (request, caller) => {
      const loaded = await agent.read();
      const cliModel = loaded.cliModel(request.model);
      if (cliModel === undefined) throw unknownModel(request.model, loaded);
      const read = readMessageTokens(request.messages);
      // Its tokens have been applied before.
      const earlier = retryable.find(request, caller.principal);
      if (earlier !== null) return earlier;
      const shown = await visibility.apply(read.tokens);
      if (read.isOnlyTokens)
        return instantTurn(headOf(request.model), request, {
          kind: "stream_config",
          text: statusText(shown),
        });
      const { budgetDayUsd } = loaded;
      await requireAgent({ profile: agent.profile, budgetDayUsd, principal: caller.principal });
      // A concurrent request has begun it in the meantime.
      const concurrent = retryable.find(request, caller.principal);
      if (concurrent !== null) return concurrent;
      const status = statusBefore(shown, read.tokens);
      const checked = { ...request, messages: read.messages, visibility: shown, status, loaded, cliModel };
      return start(checked, caller);
    },
    answer: (request, text) => instantTurn(headOf(request.model), request, { kind: "final", text }),
    visibility: visibility.now,
    setVisibility: (changes) =>
      visibility.change((current) => ({
        ...current,
        ...Object.fromEntries(Object.entries(changes).filter(([, shown]) => shown !== undefined)),
      })),
    cancel: (id, principal) => {
      const found = inFlight.get(id);
      if (found === undefined || found.principal !== principal) return false;
      found.turn.stop(
        new ServiceError("turn_cancelled", "The turn was stopped because its caller asked for that"),
      );
      return true;
    },
  };
};

type StartedTurn = {
  turn: RunningTurn;
  request: CheckedRequest;
  conversation: Conversation | null;
  caller: Caller;
};

/** Runs a turn to its end. Never rejects; resolves to whether it succeeded. */
const answer = async (deps: Dependencies, started: StartedTurn): Promise<boolean> => {
  const { turn, request, conversation, caller } = started;
  const began = performance.now();
  const ids = {
    chat: turn.id,
    request_id: caller.requestId,
    x_user_id: request.user ?? undefined,
    x_request_id: request.retry.requestId?.slice(0, 256),
  };
  // Streaming callers see events directly; publish to the bus only otherwise.
  const publishAs = request.stream ? null : turn.id;
  const { error, outcome, session } = await followTurn(deps, {
    ask: asked(started),
    take: turn.take,
    publishAs,
    ids,
  });
  turn.end(error === null ? { ok: true, usage: outcome.usage } : { ok: false, error });
  const status = error === null ? "completed" : "failed";
  if (publishAs !== null) publishEnd(deps, publishAs, { status, session, error: error?.message ?? null });
  deps.log.info(
    {
      ...ids,
      conversation: conversation?.source ?? "new",
      code: error?.code ?? "ok",
      ms: Math.round(performance.now() - began),
      ...(error === null && { cost_usd: outcome.costUsd, num_turns: outcome.numTurns }),
    },
    "answer ended",
  );
  return error === null;
};

const asked = ({ turn, request, conversation, caller }: StartedTurn): EngineTurn => {
  const { loaded, messages } = request;
  const instructions = [loaded.systemPrompt, ...request.system].filter((text) => text);
  return {
    conversation: conversation?.key ?? null,
    // Two callers who say the same at the same time and name no conversation hardly mean the same one.
    ifBusy: conversation?.source === "hash" ? "own" : "wait",
    ...(conversation?.source === "hash" && { mayResume: isOfSession(messages) }),
    followUp: followUpOf(messages),
    opening: openingOf(messages),
    appendSystemPrompt: instructions.length === 0 ? null : instructions.join("\n\n"),
    model: request.cliModel,
    effort: request.effort,
    maxTurns: null,
    disabledMcpServers: request.disabledMcpServers,
    timeoutSeconds: request.timeoutSeconds ?? loaded.timeoutSeconds,
    answerDigest: turn.answerDigest,
    principal: caller.principal,
    signal: turn.signal,
  };
};
