import type { AgentTurn, TurnOutcome, TurnPart } from "../agents/agent.ts";
import type { AgentEvent } from "../contract/event.ts";
import type { ConversationRecord } from "../store/conversation-store.ts";

/** Runs turns of conversations: one at a time each, in processes that it keeps warm. */
export type Engine = {
  /**
   * Takes one of the places for turns, to be given back when the turn has ended.
   * @throws ServiceError `capacity_full`, `draining`
   */
  admit: () => Permit;
  /**
   * Runs one turn when the conversation is free. Rejects with `ServiceError` for everything but success: waiting in vain
   * (`conversation_busy`), a failed turn (see `turn-failure.ts`), a cancelled one (`turn_cancelled`), the end of the service.
   */
  run: (turn: EngineTurn) => Promise<EngineOutcome>;
};

export type Permit = { release: () => void };

export type EngineTurn = {
  /** Key of the conversation (64 hex digits); null: a session of its own that nobody resumes. */
  conversation: string | null;
  /** What to do when the conversation has another turn under way; `own`: the turn gets a session that nobody resumes. */
  ifBusy: "wait" | "own";
  /** Whether the session that is on record may go on with this turn; absent: it may. */
  mayResume?: (record: ConversationRecord) => boolean;
  /** What is said to a session that goes on. */
  news: readonly TurnPart[];
  /** What is said to a fresh session. */
  whole: readonly TurnPart[];
  appendSystemPrompt: string | null;
  /** In the CLI's terms; null: the agent's own. */
  model: string | null;
  effort: AgentTurn["effort"];
  /** Null: the agent's own. */
  maxTurns: number | null;
  disabledMcpServers: readonly string[];
  timeoutSeconds: number;
  /** Told the session before its first event. */
  onSession?: (sessionId: string) => void;
  /** As in `AgentTurn`. */
  onEvents: (events: readonly AgentEvent[]) => void;
  /**
   * Called once when the agent has ended the turn, before `run` answers; returns the digest of the answer as the caller got
   * it, for the conversation's record.
   */
  answerDigest: (outcome: TurnOutcome) => string;
  signal: AbortSignal;
};

export type EngineOutcome = TurnOutcome & { sessionId: string };
