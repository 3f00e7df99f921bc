import type { AgentEvent } from "../contract/event.ts";
import type { FailureReason, Usage } from "../contract/job.ts";
import type { ProcessIdentity } from "../lib/process/identity.ts";

/** PORT. Runs one turn of a coding agent. */
export type Agent = {
  /**
   * Starts the process and yields its events as they come; the last one is always `exited`, and by then no process of
   * the run is left. Never throws for what the agent does: the outcome says it. Aborting the signal ends the run (TERM,
   * grace, KILL, sweep); the iteration still ends with `exited`.
   */
  run: (turn: AgentTurn) => AsyncGenerator<AgentEvent, AgentOutcome, void>;
};

export type AgentTurn = {
  jobId: string;
  attempt: number;
  prompt: string;
  /** Working directory: the worktree. */
  cwd: string;
  /** Directory of the cached clone that the worktree belongs to; null: it has none. */
  cacheDirectory: string | null;
  /** What the profile asks of the CLI, in its own terms: see `profiles/materialise.ts`. */
  launch: AgentLaunch;
  /** Chosen by us for a fresh session, or the one to resume. */
  session: { id: string; resumeFrom: string | null };
  /**
   * Called once, after the spawn and before the agent is given its prompt: until it resolves the agent has done
   * nothing. If it rejects the process is ended and the outcome is `internal`.
   */
  onSpawn: (identity: ProcessIdentity) => Promise<void>;
  /** Aborted with the reason `fence`, the process gets no grace: it may be at work beside one that took its place. */
  signal: AbortSignal;
};

/** A materialised profile: everything that decides how the CLI is started. All paths are absolute. */
export type AgentLaunch = {
  /** The job's own CLAUDE_CONFIG_DIR. */
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
  /** Wall time limit, seconds. */
  timeoutSeconds: number;
};

export type AgentOutcome = {
  ok: boolean;
  /** It was given its prompt: before that it has done nothing. */
  prompted: boolean;
  reason: FailureReason | null;
  retryable: boolean;
  /** The final text (the result), else the tail of stdout; at most 51,200 bytes. */
  output: string | null;
  /** The sentence of the failure, with the tail of stderr; at most 10,240 bytes. Null when ok. */
  error: string | null;
  exit_code: number | null;
  session_id: string | null;
  model: string | null;
  num_turns: number | null;
  cost_usd: number | null;
  usage: Usage | null;
};
