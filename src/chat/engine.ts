import type { AgentTurn, TurnEvent, TurnOutcome, TurnPart } from "../agents/agent.ts";
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
   * Runs one turn when the conversation is free. When it returns, the conversation is on record and free again. Throws a
   * `ServiceError` for everything but success: a conversation that stays busy (`conversation_busy`), a failed turn (see
   * `failure.ts`), a cancelled one (`turn_cancelled`), the end of the service.
   */
  run: (turn: EngineTurn) => AsyncGenerator<EngineEvent, void, void>;
};

export type Permit = { release: () => void };

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
  /** Who asks: digest of the caller's key, or `open`. */
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
  /** See `AgentPackage`. */
  profile: string;
  outcome: TurnOutcome;
};
