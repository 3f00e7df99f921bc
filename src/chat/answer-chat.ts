import { ServiceError } from "../contract/errors.ts";
import type { Visibility } from "../contract/visibility.ts";
import type { Log } from "../lib/log.ts";
import type { LoadedAgent } from "../profiles/agent-package.ts";
import type { EventBus } from "../store/event-bus.ts";
import type { Caller, ChatRequest } from "./chat.ts";
import { createPublisher } from "./completion-events.ts";
import type { Conversation } from "./conversation-key.ts";
import type { Engine, EngineTurn } from "./engine.ts";
import { isOfSession, followUpOf, openingOf } from "./prompt.ts";
import type { RunningTurn } from "./turn.ts";

/** A request whose tokens have been removed and applied. */
export type CheckedRequest = ChatRequest & {
  visibility: Visibility;
  loaded: LoadedAgent;
  /** Null: the agent's own. */
  cliModel: string | null;
};

type Dependencies = {
  engine: Pick<Engine, "run">;
  bus: Pick<EventBus, "begin" | "publish">;
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
export const answerChat = async (deps: Dependencies, begun: StartedTurn): Promise<boolean> => {
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
    if (publisher !== null) void deps.bus.begin(turn.id);
    const { usage, costUsd, numTurns } = await deps.engine.run({
      ...asked(begun),
      ...(publisher !== null && { onSession: publisher.onSession }),
      onEvents: (events) => {
        turn.onEvents(events);
        publisher?.onEvents(events);
      },
    });
    turn.end({ ok: true, usage });
    publisher?.end("completed", null);
    note("ok", { cost_usd: costUsd, num_turns: numTurns });
    return true;
  } catch (thrown) {
    const error = publicError(thrown, ids, deps.log);
    turn.end({ ok: false, error });
    publisher?.end("failed", error.message);
    note(error.code);
    return false;
  }
};

const asked = ({ turn, request, conversation }: StartedTurn): EngineTurn => {
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
    onEvents: turn.onEvents,
    answerDigest: turn.conclude,
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
