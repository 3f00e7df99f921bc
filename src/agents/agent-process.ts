import type { AgentEvent } from "../contract/event.ts";
import type { Usage } from "../contract/job.ts";
import type { FailureReason } from "../contract/job.ts";
import type { AgentLaunch } from "./agent.ts";

/** PORT. Processes of a coding agent that take one turn of a conversation after another. */
export type AgentProcesses = {
  /**
   * Starts a process for one session. Resolves as soon as it is spawned: it gets ready while it waits for its first turn.
   * What keeps it from starting is a value.
   */
  start: (request: ProcessStart) => Promise<StartedProcess>;
};

export type ProcessStart = {
  /** Marks the process and all that it starts; unique to this process. */
  id: string;
  /** Working directory; it exists. */
  cwd: string;
  launch: AgentLaunch;
  /** Chosen by us for a fresh session, or the one to resume, by the absolute path of its transcript. */
  session: { id: string; resumeFrom: string | null };
};

export type StartedProcess =
  | { ok: true; process: AgentProcess }
  | { ok: false; reason: FailureReason; message: string };

export type AgentProcess = {
  id: string;
  pid: number;
  sessionId: string;
  /** It takes a turn: it runs, no turn is under way, and it has not been ended. */
  isIdle: () => boolean;
  /** Turns that it has been given. */
  turns: () => number;
  /** Resident memory of the process itself, bytes; null when it cannot be read. */
  residentBytes: () => Promise<number | null>;
  /** Runs one turn. Never rejects for what the agent does: the outcome says it. One at a time. */
  turn: (turn: ProcessTurn) => Promise<TurnOutcome>;
  /** TERM to the group, KILL after the grace, then the sweep. Resolves when nothing of it is left. Can be called again. */
  end: (options?: { graceSeconds: number }) => Promise<void>;
  /** Resolves when the process is gone with all that it started, whatever ended it. */
  ended: Promise<void>;
};

/** What the user says in one turn. */
export type TurnPart = { type: "text"; text: string } | { type: "image"; mediaType: string; base64: string };

export type ProcessTurn = {
  content: readonly TurnPart[];
  /** Appended to the system prompt. Heeded by the first turn of a process only; null: nothing. */
  appendSystemPrompt: string | null;
  /** Model for this and the next turns, in the CLI's terms; null: as it is. */
  model: string | null;
  /** Likewise; null: as it is. */
  effort: "low" | "medium" | "high" | null;
  /** Wall time of the turn, seconds; the silence limits of the settings count as well. */
  timeoutSeconds: number;
  /**
   * The events of one piece of the agent's output, at once and in order; at most one `result`, and it is the last but for
   * warnings. Called synchronously: it must not throw and must not wait.
   */
  onEvents: (events: readonly AgentEvent[]) => void;
  /** Interrupts the turn: asked to stop, then TERM, then KILL, all within 2 s. */
  signal: AbortSignal;
};

export type TurnOutcome = {
  ok: boolean;
  /** Null when ok, and when the caller ended the turn. */
  reason: FailureReason | null;
  retryable: boolean;
  /** Status with which the model's endpoint refused; null: it did not. */
  apiStatus: number | null;
  /** The sentence of the failure; null when ok. */
  error: string | null;
  /** The agent's final text. */
  text: string;
  sessionId: string | null;
  model: string | null;
  /** Of this turn alone, also when the CLI adds up. */
  numTurns: number | null;
  costUsd: number | null;
  usage: Usage | null;
  durationMs: number;
};
