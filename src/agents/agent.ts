import type { AgentEvent } from "../contract/event.ts";
import type { FailureReason, Usage } from "../contract/job.ts";
import type { ProcessIdentity } from "../lib/process/identity.ts";

/**
 * PORT. A coding agent's CLI. Its processes take one turn after another: a conversation has one for many turns, a job one
 * for a single turn, which is its last.
 */
export type Agent = {
  /**
   * Starts a process for one session. Resolves as soon as it is spawned: it gets ready while it waits for its first turn.
   * What keeps it from starting is a value.
   */
  start: (request: AgentStart) => Promise<StartedAgent>;
};

export type AgentStart = {
  /** Marks the process and all that it starts: the job's id, or one that is unique to this process. */
  id: string;
  attempt: number;
  /** Working directory; it exists. */
  cwd: string;
  /** What the profile asks of the CLI, in its own terms: see `profiles/materialise.ts`. */
  launch: AgentLaunch;
  /** Chosen by us for a fresh session, or the one to resume, by the absolute path of its transcript. */
  session: { id: string; resumeFrom: string | null };
};

/** A materialised profile: everything that decides how the CLI is started. All paths are absolute. */
export type AgentLaunch = {
  /** The process's own CLAUDE_CONFIG_DIR. */
  configDir: string;
  /** Options of the profile's `claude` block as CLI arguments, `--model sonnet --max-turns 80 …`. */
  args: string[];
  model: string | null;
  /** Settings file passed with --settings (hooks of the service), and MCP config passed with --mcp-config. */
  settingsFile: string | null;
  mcpConfigFile: string | null;
  /** Name for --worktree; null: the flag is not given. */
  worktreeName: string | null;
  bypassPermissions: boolean;
  profile: string;
  repoKey: string | null;
  /** Wall time limit of a job, seconds. */
  timeoutSeconds: number;
};

export type StartedAgent = { ok: true; process: AgentProcess } | { ok: false; outcome: TurnOutcome };

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
  turn: (turn: AgentTurn) => Promise<TurnOutcome>;
  /** TERM to the group, KILL after the grace, then the sweep. Resolves when nothing of it is left. Can be called again. */
  end: (options?: { graceSeconds: number }) => Promise<void>;
  /** Resolves when the process is gone with all that it started, whatever ended it. */
  ended: Promise<void>;
};

/** What the user says in one turn. */
export type TurnPart = { type: "text"; text: string } | { type: "image"; mediaType: string; base64: string };

export type AgentTurn = {
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
   * warnings. Of a last turn there may be more results, of which the last counts, and `exited` ends them. Called
   * synchronously: it must not throw and must not wait.
   */
  onEvents: (events: readonly AgentEvent[]) => void;
  /**
   * Interrupts the turn: asked to stop, then TERM, then KILL, all within 2 s. A last turn is not asked: TERM, the grace of the
   * settings, KILL. Aborted with the reason `fence` that one gets no grace: it may be at work beside one that took its place.
   */
  signal: AbortSignal;
  /**
   * The process is to exit after its result, and is ended if it does not. The outcome is that of the exit, by which no process
   * of the run is left.
   */
  isLast?: boolean;
  /**
   * Awaited before the agent is given the turn: until it resolves the agent has done nothing. If it rejects the turn is
   * stopped and the outcome is `internal`.
   */
  beforePrompt?: (identity: ProcessIdentity) => Promise<void>;
};

export type TurnOutcome = {
  ok: boolean;
  /** The agent was given the turn: before that it has done nothing. */
  prompted: boolean;
  /** Null when ok, and when the caller ended the turn. */
  reason: FailureReason | null;
  retryable: boolean;
  /** Status with which the model's endpoint refused; null: it did not. */
  apiStatus: number | null;
  /** The sentence of the failure, with the tail of stderr; at most 10,240 bytes. Null when ok. */
  error: string | null;
  /** The agent's final text (the result), else the tail of what it said. */
  text: string;
  /** Null while the process goes on, and when a signal ended it. */
  exitCode: number | null;
  sessionId: string | null;
  model: string | null;
  /** Of this turn alone, also when the CLI adds up. */
  numTurns: number | null;
  costUsd: number | null;
  usage: Usage | null;
  durationMs: number;
};
