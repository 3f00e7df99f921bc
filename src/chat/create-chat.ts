import { join } from "node:path";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import { everythingVisible, type Visibility } from "../contract/visibility.ts";
import type { Log } from "../lib/log.ts";
import { createKeyedMutex } from "../lib/keyed-mutex.ts";
import type { AgentPackage, LoadedAgent } from "../profiles/agent-package.ts";
import type { EventBus } from "../store/event-bus.ts";
import type { VisibilityStore } from "../store/visibility-store.ts";
import { answerChat, type CheckedRequest } from "./answer-chat.ts";
import type { Caller, Chat } from "./chat.ts";
import { conversationOf } from "./conversation-key.ts";
import type { Engine } from "./engine.ts";
import { instantTurn, createTurn, type RunningTurn } from "./turn.ts";
import { createRetryable } from "./retries.ts";
import { applySlashTokens, readMessageTokens, type SlashToken } from "./slash-tokens.ts";
import { statusText } from "./delta.ts";

type Dependencies = {
  engine: Pick<Engine, "admit" | "run">;
  agent: Pick<AgentPackage, "name" | "read">;
  visibilities: VisibilityStore;
  bus: Pick<EventBus, "begin" | "publish">;
  settings: Pick<
    Settings,
    "agentModeLiveText" | "agentModeOnDisconnect" | "agentModeWorkspaces" | "convHashFallback"
  >;
  now: () => Date;
  newId: () => string;
  log: Log;
};

/** Implements the port in `chat.ts`. */
export const createChat = ({
  bus,
  engine,
  agent,
  visibilities,
  settings,
  now,
  newId,
  log,
}: Dependencies): Chat => {
  const inFlight = new Map<string, { turn: RunningTurn; principal: string }>();
  const changes = createKeyedMutex();
  const retryable = createRetryable<RunningTurn>({
    clock: () => performance.now(),
    onForgotten: (turn) => turn.dispose(),
  });

  const headOf = (model: string) => ({
    id: `chatcmpl-${newId().replaceAll("-", "")}`,
    created: Math.floor(now().getTime() / 1000),
    model,
  });

  const visibilityNow = async (): Promise<Visibility> =>
    (await visibilities.get(agent.name)) ?? everythingVisible;

  /** Serialised: two changes at once must not undo each other. */
  const changeVisibility = (tokens: readonly SlashToken[]): Promise<Visibility> => {
    const toggles = tokens.filter((token) => token !== "/stream-status");
    if (toggles.length === 0) return visibilityNow();
    return changes.runExclusive(agent.name, async () => {
      const visibility = applySlashTokens(await visibilityNow(), toggles);
      await visibilities.set(agent.name, visibility);
      return visibility;
    });
  };

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
      liveText: request.liveText ?? settings.agentModeLiveText,
      policy: settings.agentModeOnDisconnect,
      conversation: { source: conversation?.source ?? "new", id: conversation?.id ?? null },
      spillDirectory: join(settings.agentModeWorkspaces, agent.name),
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
      const visibility = await changeVisibility(read.tokens);
      if (read.isOnlyTokens || read.tokens.includes("/stream-status"))
        return instantTurn(headOf(request.model), request, {
          kind: "stream_config",
          text: statusText(visibility),
        });
      // A concurrent request has begun it in the meantime.
      const concurrent = retryable.find(request, caller.principal);
      if (concurrent !== null) return concurrent;
      return start({ ...request, messages: read.messages, visibility, loaded, cliModel }, caller);
    },
    answer: (request, text) => instantTurn(headOf(request.model), request, { kind: "final", text }),
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
