import type { TurnOutcome } from "../agents/agent.ts";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import type { Visibility } from "../contract/visibility.ts";
import type { Log } from "../lib/log.ts";
import type { AgentPackage, LoadedAgent } from "../profiles/agent-package.ts";
import type { EventBus } from "../store/event-bus.ts";
import type { VisibilityStore } from "../store/visibility-store.ts";
import type { Caller, Chat, ChatRequest } from "./chat.ts";
import { conversationOf, type Conversation } from "./conversation-key.ts";
import type { Engine, EngineTurn, RequireAgent } from "./engine.ts";
import { instantTurn, createTurn, type RunningTurn } from "./turn.ts";
import { createRetryable } from "./retries.ts";
import { createAgentVisibility } from "./agent-visibility.ts";
import { readMessageTokens } from "./slash-tokens.ts";
import { statusBefore, statusText } from "./delta.ts";
import { createPublisher } from "./completion-events.ts";
import { isOfSession, followUpOf, openingOf } from "./prompt.ts";

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

/** Implements the port in `chat.ts`. */
export const createChat = ({
  bus,
  engine,
  agent,
  requireAgent,
  visibilities,
  settings,
  now,
  newId,
  log,
}: Dependencies): Chat => {
  const inFlight = new Map<string, { turn: RunningTurn; principal: string }>();
  const retryable = createRetryable<RunningTurn>({
    clock: () => performance.now(),
    onForgotten: (turn) => turn.dispose(),
  });

  const headOf = (model: string) => ({
    id: `chatcmpl-${newId().replaceAll("-", "")}`,
    created: Math.floor(now().getTime() / 1000),
    model,
  });

  const visibility = createAgentVisibility(visibilities, agent.name);

  const start = (request: CheckedRequest, caller: Caller): RunningTurn => {
    const conversation = conversationOf(
      request,
      { agent: agent.name, principal: caller.principal },
      settings.convHashFallback,
    );
    // From here until the turn runs nothing may fail: the permit would leak.
    const permit = engine.admit();
    const turn = createTurn({
      head: headOf(request.model),
      stream: request.stream,
      includeUsage: request.includeUsage,
      visibility: request.visibility,
      status: request.status,
      liveText: request.liveText ?? settings.agentModeLiveText,
      policy: settings.agentModeOnDisconnect,
      conversation: { source: conversation?.source ?? "new", id: conversation?.id ?? null },
    });
    inFlight.set(turn.id, { turn, principal: caller.principal });
    const ended = retryable.add(turn, request, caller.principal);
    void answerChat({ engine, bus, now, log }, { turn, request, conversation, caller }).then((ok) => {
      permit.release();
      inFlight.delete(turn.id);
      ended(ok, turn.size());
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

const unknownModel = (model: string, { models }: LoadedAgent): ServiceError =>
  new ServiceError(
    "model_not_found",
    `The model ${JSON.stringify(model.slice(0, 100))} does not exist; use one of ${models.slice(0, 20).join(", ")}`,
  );

/** A request whose tokens have been removed and applied. */
type CheckedRequest = ChatRequest & {
  visibility: Visibility;
  /** Text before the answer. */
  status: string;
  loaded: LoadedAgent;
  /** Null: the agent's own. */
  cliModel: string | null;
};

type AnswerDependencies = {
  engine: Pick<Engine, "run">;
  bus: Pick<EventBus, "publish">;
  now: () => Date;
  log: Log;
};

type StartedTurn = {
  turn: RunningTurn;
  request: CheckedRequest;
  conversation: Conversation | null;
  caller: Caller;
};

/** Runs a turn in the engine and ends it. Never rejects; resolves to whether it succeeded. */
const answerChat = async (deps: AnswerDependencies, begun: StartedTurn): Promise<boolean> => {
  const { turn, request, conversation } = begun;
  const started = performance.now();
  const ids = idsOf(begun);
  const note = (code: string, more: Record<string, unknown> = {}): void =>
    deps.log.info(
      {
        ...ids,
        conversation: conversation?.source ?? "new",
        code,
        ms: Math.round(performance.now() - started),
        ...more,
      },
      "answer ended",
    );
  // Streaming callers see events directly; publish to the bus only otherwise.
  const publisher = request.stream ? null : createPublisher(deps, turn.id);
  try {
    let ended: TurnOutcome | null = null;
    for await (const event of deps.engine.run(asked(begun))) {
      publisher?.take(event);
      turn.take(event);
      if (event.type === "ended") ended = event.outcome;
    }
    turn.end({ ok: true, usage: ended?.usage ?? null });
    publisher?.end("completed", null);
    note("ok", { cost_usd: ended?.costUsd, num_turns: ended?.numTurns });
    return true;
  } catch (thrown) {
    const error = publicError(thrown, ids, deps.log);
    turn.end({ ok: false, error });
    publisher?.end("failed", error.message);
    note(error.code);
    return false;
  }
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

/** Ids in the log lines of a turn: its own, and the caller's X-User-Id and X-Request-Id. */
const idsOf = ({ turn, request, caller }: StartedTurn) => ({
  chat: turn.id,
  request_id: caller.requestId,
  x_user_id: request.user ?? undefined,
  x_request_id: request.retry.requestId?.slice(0, 256),
});

const publicError = (error: unknown, ids: ReturnType<typeof idsOf>, log: Log): ServiceError => {
  if (error instanceof ServiceError) return error;
  log.error({ err: error, ...ids }, "a turn failed unexpectedly");
  const message = `The service failed unexpectedly; see its log under request id ${ids.request_id}`;
  return new ServiceError("internal", message);
};
