import type { Agent, AgentTurn, TurnEvent, TurnOutcome, TurnPart } from "../agents/agent.ts";
import type { Settings } from "../config/variables.ts";
import { ServiceError } from "../contract/errors.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { Log } from "../lib/log.ts";
import { createNotifier } from "../lib/notifier.ts";
import type { AgentPackage } from "../profiles/agent-package.ts";
import type { ConversationRecord, ConversationStore } from "../store/conversation-store.ts";
import type { Locks } from "../store/locks.ts";
import { createConversationTurns, type HeldConversation } from "./conversation-turns.ts";
import { runTurn } from "./engine-turn.ts";
import { turnFailure } from "./failure.ts";
import { closePool, openPool, prewarm, prune } from "./pool.ts";
import { createWorkspaces } from "./workspaces.ts";

/** Runs turns of conversations, one at a time each, in warm processes. */
export type Engine = {
  /**
   * Takes a permit for a turn. Returns the function that releases it, to be called once when the turn has ended.
   * @throws ServiceError `capacity_full`, `draining`
   */
  admit: () => () => void;
  /**
   * Runs one turn when the conversation is free. When it returns, the conversation is on record and free again. Throws a
   * `ServiceError` for everything but success: a conversation that stays busy (`conversation_busy`), a failed turn (see
   * `failure.ts`), a cancelled one (`turn_cancelled`), the end of the service.
   */
  run: (turn: EngineTurn) => AsyncGenerator<EngineEvent, void, void>;
  /** Removes what an earlier start left; before any turn. */
  prepare: () => Promise<void>;
  /** Prewarms processes. */
  start: () => void;
  /**
   * To be called every few seconds: ends processes that are idle too long or outdated. Deletes what is old, unless the
   * clock is in doubt.
   */
  prune: (mayDelete: boolean) => Promise<void>;
  counts: () => { turns: number; processes: number };
  /** Resolves when no turn is in flight, or the signal aborts. */
  idle: (signal: AbortSignal) => Promise<void>;
  /** Accepts no more turns, ends those in flight and all processes. Resolves when nothing is left. */
  stop: () => Promise<void>;
};

/** The agent's events after their session, and before the outcome. Another session begins the turn anew. */
export type EngineEvent = { type: "session"; id: string } | TurnEvent;

export type EngineTurn = {
  /** Key of the conversation (64 hex digits); null: a session that is never resumed. */
  conversation: string | null;
  /** When the conversation has another turn in flight: wait, or (`own`) run in a session that is never resumed. */
  ifBusy: "wait" | "own";
  /** Whether the recorded session may continue with this turn; absent: it may. */
  mayResume?: (record: ConversationRecord) => boolean;
  /** Prompt for a session that continues. */
  followUp: readonly TurnPart[];
  /** Prompt for a new session. */
  opening: readonly TurnPart[];
  appendSystemPrompt: string | null;
  /** In the CLI's terms; null: the agent's own. */
  model: string | null;
  effort: AgentTurn["effort"];
  /** Null: the agent's own. */
  maxTurns: number | null;
  disabledMcpServers: readonly string[];
  timeoutSeconds: number;
  /** Digest of the answer as the caller got it, for the conversation's record. Called after the outcome was taken. */
  answerDigest: () => string;
  /** The caller: digest of its key, or `open`. */
  principal: string;
  signal: AbortSignal;
};

/**
 * Checks what an agent needs before a turn: the model, and the budgets of the day.
 * @throws ServiceError `no_model_credential`, `budget_reached`
 */
export type RequireAgent = (who: {
  profile: string;
  budgetDayUsd: number | null;
  principal: string;
}) => Promise<void>;

/** Called when a turn begins: who asks what. */
export type ObserveTurn = (turn: { agent: string; prompt: string }) => {
  /** Called with each event of the turn. Must not throw. */
  event: (event: AgentEvent) => void;
  /** Called when the agent has ended the turn. Must not throw. */
  ended: (turn: EndedTurn) => void;
};

export type EndedTurn = Pick<EngineTurn, "principal" | "model"> & {
  /** Unique, also among instances. */
  id: string;
  endedAt: Date;
  profile: string;
  outcome: TurnOutcome;
};

type Dependencies = {
  cli: Agent;
  agent: AgentPackage;
  conversations: ConversationStore;
  locks: Pick<Locks, "take">;
  settings: Pick<
    Settings,
    | "agentModeMaxConcurrent"
    | "agentModeWarmProcesses"
    | "agentModeKeepAlive"
    | "agentModeIdleProcesses"
    | "agentModeWorkspaces"
    | "agentModeConversationTtl"
  >;
  /** Whether new turns are refused for now, although the service continues. */
  isDraining: () => boolean;
  observeTurn: ObserveTurn;
  now: () => Date;
  newId: () => string;
  /** See `pool.ts`. */
  idPrefix: string;
  log: Log;
};

export const createEngine = (deps: Dependencies): Engine => {
  const { agent, settings, now } = deps;
  const workspaces = createWorkspaces({ root: settings.agentModeWorkspaces, agent: agent.name, now });
  const pool = openPool({
    ...deps,
    workspaces,
    limits: {
      prewarmed: settings.agentModeWarmProcesses,
      idle: settings.agentModeIdleProcesses,
      idleSeconds: settings.agentModeKeepAlive,
    },
  });
  const turns = createConversationTurns(deps.locks);
  const ending = new AbortController();
  const idleNotice = createNotifier();
  let inFlight = 0;
  let swept = Number.NEGATIVE_INFINITY;

  const idle = async (signal: AbortSignal): Promise<void> => {
    if (inFlight > 0) await idleNotice.waitFor("", signal);
  };

  /** Null: the turn runs in a session that is never resumed. */
  const hold = async (turn: EngineTurn): Promise<HeldConversation | null> => {
    const { conversation, ifBusy, timeoutSeconds } = turn;
    if (conversation === null) return null;
    const signal = AbortSignal.any([turn.signal, ending.signal]);
    if (ifBusy === "wait") return turns.hold(conversation, timeoutSeconds, signal);
    return turns.hold(conversation, 0, signal).catch(unlessBusy);
  };

  return {
    admit: () => {
      const { agentModeMaxConcurrent: max } = settings;
      if (ending.signal.aborted || deps.isDraining()) throw closing();
      if (inFlight >= max) throw full(max);
      inFlight += 1;
      return () => {
        inFlight -= 1;
        if (inFlight === 0) idleNotice.notify("");
      };
    },

    run: async function* (turn) {
      const deadline = performance.now() + turn.timeoutSeconds * 1000;
      const held = await hold(turn);
      const lost = held === null ? [] : [held.lost];
      const signal = AbortSignal.any([turn.signal, ending.signal, ...lost]);
      const { principal, model } = turn;
      const conversation = held === null ? null : turn.conversation;
      const observer = deps.observeTurn({ agent: agent.name, prompt: promptOf(turn) });
      let failure: ServiceError | null = null;
      try {
        for await (const event of runTurn({ ...deps, pool }, { ...turn, conversation, signal }, deadline)) {
          if (event.type === "ended") {
            const { outcome } = event;
            const facts = { id: deps.newId(), endedAt: now(), profile: agent.profile, outcome };
            observer.ended({ ...facts, principal, model });
            if (!outcome.ok)
              failure =
                held?.lost.aborted === true && outcome.reason === null
                  ? takenAway()
                  : turnFailure(outcome, signal);
          } else if (event.type !== "session" && event.type !== "ready" && event.type !== "spent")
            observer.event(event);
          yield event;
        }
      } finally {
        await held?.release();
      }
      if (failure !== null) throw failure;
    },

    prepare: async () => {
      await workspaces.prepare();
      await agent.discardEarlier(deps.idPrefix);
    },
    start: () => prewarm(pool),
    prune: async (mayDelete) => {
      await prune(pool);
      if (!mayDelete || performance.now() - swept < sweepMs) return;
      swept = performance.now();
      await deps.conversations.expire(now());
      const before = now().getTime() - settings.agentModeConversationTtl * 1000;
      await workspaces.removeUnused(before, new Set(Array.from(pool.living, ({ cwd }) => cwd)));
    },
    counts: () => ({ turns: inFlight, processes: pool.living.size }),
    idle,
    stop: async () => {
      ending.abort(closing());
      await idle(AbortSignal.timeout(stopMs));
      await closePool(pool);
    },
  };
};

/** Interval of sweeps through working directories; how long turns may take to end; milliseconds. */
const sweepMs = 60_000;
const stopMs = 8000;

const unlessBusy = (error: unknown): null => {
  if (error instanceof ServiceError && error.code === "conversation_busy") return null;
  throw error;
};

const closing = (): ServiceError =>
  new ServiceError("draining", "The service is shutting down; ask again, the conversation can be resumed", {
    retryAfter: 5,
  });

const promptOf = ({ followUp }: EngineTurn): string =>
  followUp.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");

const takenAway = (): ServiceError =>
  new ServiceError(
    "store_unavailable",
    "The conversation could not be reserved while the store was unreachable; ask again",
  );

const full = (max: number): ServiceError =>
  new ServiceError(
    "capacity_full",
    `${max === 1 ? "The only place" : `All ${max} places`} for answers ${max === 1 ? "is" : "are"} taken; ask again in a few seconds, or raise AGENT_MODE_MAX_CONCURRENT`,
    { retryAfter: 5 },
  );
