import { ServiceError } from "../contract/errors.ts";
import type { Visibility } from "../contract/visibility.ts";
import type { Log } from "../lib/log.ts";
import type { LoadedAgent } from "../profiles/agent-package.ts";
import type { EventBus } from "../store/event-bus.ts";
import type { Caller, ChatRequest } from "./chat.ts";
import { createTeller } from "./completion-events.ts";
import type { Conversation } from "./conversation-key.ts";
import type { Engine, EngineTurn } from "./engine.ts";
import { isOfSession } from "./lineage.ts";
import { newsOf, wholeOf } from "./prompt.ts";
import type { RunningTurn } from "./turn.ts";

/** A request whose tokens have been taken out and applied. */
export type Checked = ChatRequest & {
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

type Begun = { turn: RunningTurn; request: Checked; conversation: Conversation | null; caller: Caller };

/** Has the engine run a turn, and brings it to its end. Never rejects; resolves to whether it went well. */
export const answerChat = async (deps: Dependencies, begun: Begun): Promise<boolean> => {
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
  // Of a stream nobody needs to be told elsewhere.
  const onlooker = request.stream ? null : createTeller(deps, turn.id);
  try {
    if (onlooker !== null) void deps.bus.begin(turn.id);
    const { usage, costUsd, numTurns } = await deps.engine.run({
      ...asked(begun),
      ...(onlooker !== null && { onSession: onlooker.onSession }),
      onEvents: (events) => {
        turn.onEvents(events);
        onlooker?.onEvents(events);
      },
    });
    turn.end({ ok: true, usage });
    onlooker?.end("completed", null);
    note("ok", { cost_usd: costUsd, num_turns: numTurns });
    return true;
  } catch (thrown) {
    const error = told(thrown, ids, deps.log);
    turn.end({ ok: false, error });
    onlooker?.end("failed", error.message);
    note(error.code);
    return false;
  }
};

const asked = ({ turn, request, conversation }: Begun): EngineTurn => {
  const { loaded, messages } = request;
  const instructions = [loaded.systemPrompt, ...request.system].filter((text) => text);
  return {
    conversation: conversation?.key ?? null,
    // Who says the same at the same time and names no conversation hardly means the same one.
    ifBusy: conversation?.source === "hash" ? "own" : "wait",
    ...(conversation?.source === "hash" && { mayResume: isOfSession(messages) }),
    news: newsOf(messages),
    whole: wholeOf(messages),
    appendSystemPrompt: instructions.length === 0 ? null : instructions.join("\n\n"),
    model: request.cliModel,
    effort: request.effort,
    maxTurns: null,
    disabledMcpServers: request.disabledMcpServers,
    timeoutSeconds: request.timeoutSeconds ?? loaded.timeoutSeconds,
    onEvents: turn.onEvents,
    answerDigest: turn.concluded,
    signal: turn.signal,
  };
};

/** By which the log lines of a turn are found: ours, and X-User-Id and X-Request-Id as the caller gave them. */
const idsOf = ({ turn, request, caller }: Begun) => ({
  chat: turn.id,
  request_id: caller.requestId,
  x_user_id: request.user ?? undefined,
  x_request_id: request.retry.requestId?.slice(0, 256),
});

const told = (error: unknown, ids: ReturnType<typeof idsOf>, log: Log): ServiceError => {
  if (error instanceof ServiceError) return error;
  log.error({ err: error, ...ids }, "a turn failed unexpectedly");
  const message = `The service failed unexpectedly; its log tells more under request id ${ids.request_id}`;
  return new ServiceError("internal", message);
};
