import type { AgentTurn, TurnOutcome, TurnPart } from "../agents/agent.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { ConversationRecord } from "../store/conversation-store.ts";

/** PORT. Runs turns of conversations, one at a time each, in warm processes. */
export type Engine = {
  /**
   * Takes a permit for a turn; release it when the turn has ended.
   * @throws ServiceError `capacity_full`, `draining`
   */
  admit: () => Permit;
  /**
   * Runs one turn when the conversation is free. Rejects with `ServiceError` for everything but success: a
   * conversation that stays busy (`conversation_busy`), a failed turn (see `turn-failure.ts`), a cancelled one
   * (`turn_cancelled`), the end of the service.
   */
  run: (turn: EngineTurn) => Promise<EngineOutcome>;
};

export type Permit = { release: () => void };

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
  /** Called with the session before its first event. */
  onSession?: (sessionId: string) => void;
  /** As in `AgentTurn`. */
  onEvents: (events: readonly AgentEvent[]) => void;
  /**
   * Called once when the agent has ended the turn, before `run` resolves. Returns the digest of the answer as the
   * caller got it, for the conversation's record.
   */
  answerDigest: (outcome: TurnOutcome) => string;
  /** Who asks: digest of the caller's key, or `open`. */
  principal: string;
  signal: AbortSignal;
};

export type EngineOutcome = TurnOutcome & { sessionId: string };

/** A turn that the agent has ended, well or not. */
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
  /** Called with the turn's events. Must not throw. */
  events: (events: readonly AgentEvent[]) => void;
  /** Called when the agent has ended the turn. Must not throw. */
  ended: (turn: EndedTurn) => void;
};

export type EndedTurn = Pick<EngineTurn, "principal" | "model"> & {
  /** Unique, also among instances. */
  id: string;
  endedAt: Date;
  /** See `AgentPackage`. */
  profile: string;
  outcome: TurnOutcome;
};
