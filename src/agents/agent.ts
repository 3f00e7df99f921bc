import type { AgentEvent } from "../contract/event.ts";
import type { FailureReason, JobSandbox, Question, Report, Usage } from "../contract/job.ts";
import type { ProcessIdentity } from "../lib/process/identity.ts";
import type { Meter } from "../sandbox/meter.ts";
import type { Run } from "../sandbox/sandbox.ts";

/**
 * PORT. A coding agent's CLI. Its processes run one turn after another: many for a conversation, a single one, which
 * is its last, for a job.
 */
export type Agent = {
  /**
   * Starts a process for one session. Resolves once it is spawned: it gets ready while it waits for its first turn. A
   * failed start is a value, not a rejection.
   */
  start: (request: AgentStart) => Promise<StartedAgent>;
  /**
   * What a session, by its transcript, has of the answer to a question of the id `id`: it asks again when it is resumed; it has
   * heard it, as the call's result or as the message `messageId`; or it has lost the question. `words`: those of the person
   * that an error as the result must have to be the answer; empty: it is none.
   */
  findAnswer: (
    transcript: string,
    asked: { id: string; messageId: string; words: string },
  ) => Promise<"asks_again" | "heard" | "lost">;
};

export type AgentStart = {
  /** Marks the process and all that it starts: the job's id, or one unique to this process. */
  id: string;
  attempt: number;
  /** Working directory; it exists. */
  cwd: string;
  /** Directories that its clone borrows objects from; absent: none. */
  borrows?: readonly string[];
  /** Further directories that it may write in, as in `cwd`; absent: none. */
  also?: readonly string[];
  /** The profile's options in the CLI's terms: see `profiles/materialise.ts`. */
  launch: AgentLaunch;
  /** The id of a new session, or the one to resume, by the absolute path of its transcript. */
  session: { id: string; resumeFrom: string | null };
  /** Whether it may ask a person: `question` questions, `plan` that a plan is approved before it works. Absent: neither. */
  asks?: { question: boolean; plan: boolean };
  /** Whether it may be told something while a turn runs: see `AgentProcess.say`. Absent: no. */
  hears?: boolean;
  /** Whether it is asked to report what came of it at the end of each turn; absent: no. */
  reports?: boolean;
  /** Whether the resumed session goes on with its turn, which ended early: its first turn has no content. */
  goesOn?: boolean;
  /** Whether it uses ANTHROPIC_API_KEY in the place of the credential that agents use. */
  usesKey?: boolean;
  /** W3C Trace Context for the agent's own telemetry; absent: it has a trace of its own. */
  traceparent?: string;
};

/** A materialised profile: everything that decides how the CLI is started. All paths are absolute. */
export type AgentLaunch = Pick<Run, "allowed" | "secrets" | "ports" | "mounts"> & {
  /** The process's own CLAUDE_CONFIG_DIR. */
  configDir: string;
  /** Where transcripts are, a directory for each working directory. `configDir` has a link to it. */
  projectsDir: string;
  /** Options of the profile's `claude` block as CLI arguments, `--model sonnet --max-turns 80 …`. */
  args: string[];
  model: string | null;
  /** Settings file passed with --settings, and MCP config passed with --mcp-config. */
  settingsFile: string | null;
  mcpConfigFile: string | null;
  /** For a CLI that takes --worktree: the name, and the settings file in the other's place. Null: the flag is not given. */
  worktree: { name: string; settingsFile: string } | null;
  bypassPermissions: boolean;
  profile: string;
  repoKey: string | null;
  /** Further variables; absent: none. */
  env?: Readonly<Record<string, string>>;
  /** For `sh`: runs before it, beside it in its sandbox. Absent: nothing does. */
  before?: string;
  /** Wall time limit of a job, seconds. */
  timeoutSeconds: number;
  /** USD that a run may cost; null: no limit. */
  maxBudgetUsd: number | null;
};

export type StartedAgent = { ok: true; process: AgentProcess } | { ok: false; outcome: TurnOutcome };

export type AgentProcess = {
  id: string;
  pid: number;
  sessionId: string;
  sandbox: Omit<JobSandbox, "denied">;
  /** Whether it can run a turn: it is alive, no turn is in flight, and it has not been ended. */
  isIdle: () => boolean;
  /** Turns that it has got so far. */
  turns: () => number;
  /**
   * Begins a turn, one at a time: ask for its events at once. Never throws for what the agent does: the outcome says
   * it. Who leaves it early stops it, as its signal does; that ends when the turn has ended.
   */
  turn: (turn: AgentTurn) => AsyncGenerator<TurnEvent, void, void>;
  /**
   * Tells the agent something in its last turn, in the order of the calls; the event `message` says that it has it. What the
   * session has already is not said again; its event comes at once. True: it will be heard, or the turn ends before. False: the agent
   * takes nothing (any more), and has not got it.
   */
  say: (message: SaidMessage) => Promise<boolean>;
  /** Takes back what was said. False: the agent has it, or may have it, as its process has ended. */
  takeBack: (id: string) => Promise<boolean>;
  /** TERM to the group, KILL after the grace, then the sweep. Resolves when nothing of it is left. Idempotent. */
  end: (options?: { graceSeconds: number }) => Promise<void>;
  /** Resolves when the process and all that it started have ended, for whatever reason. */
  ended: Promise<void>;
  /** Counts what its sandbox spends at the model. Absent: no sandbox counts it. */
  spending?: Spending;
};

/** By model, since the process began. */
export type ModelTokens = Readonly<Record<string, Usage>>;

export type Spending = {
  meter: Meter;
  /** Tokens by model of the agent's last result; null before there is one. */
  reported: () => ModelTokens | null;
  /** Asks the agent while it works; null: it does not say. */
  ask: () => Promise<{ total_cost_usd: number; model_usage?: ModelTokens | null | undefined } | null>;
};

/**
 * What the user says while a turn runs. `id`: a UUID. `next`: the agent gets it with its next step; `now`: it ends its turn and
 * begins one with it, unless it waits for an answer: then as `next`; `later`: when it has done all else.
 */
export type SaidMessage = { id: string; text: string; when: "next" | "now" | "later" };

/** What the user says in one turn. */
export type TurnPart =
  | { type: "text"; text: string }
  | { type: "image"; mediaType: string; base64: string }
  | { type: "document"; title: string; mediaType: string; base64: string };

export type AgentTurn = {
  /**
   * Empty: the session's turn goes on, of a process that resumes it: with `goesOn`, or the question that was deferred is
   * asked again. If the session has lost it, the turn ends before the agent was `prompted`.
   */
  content: readonly TurnPart[];
  /** The turn begins with this, in place of content: the event `message` says that the agent has it. */
  begins?: SaidMessage | undefined;
  /** Appended to the system prompt. Only the first turn of a process honours it; null: nothing. */
  appendSystemPrompt: string | null;
  /** For this and the next turns; null: unchanged. */
  effort: "low" | "medium" | "high" | null;
  /** The caller whose daily budget pays for the turn. Absent: no budget does. */
  principal?: string;
  /** Wall time of the turn, seconds; the silence limits of the settings count as well. */
  timeoutSeconds: number;
  /**
   * Interrupts the turn: a request to stop, then TERM, then KILL, all within 2 s. A last turn gets no request: TERM,
   * the grace of the settings, KILL. With the reason `fence` it gets no grace: another agent may already work on the
   * same job.
   */
  signal: AbortSignal;
  /** Called for what the agent wants to know, if its process was started with `asks`. */
  onAsk?: (ask: Ask) => void;
  /**
   * The process must exit after its result, and is ended if it does not. The outcome is that of the exit, when no
   * process of the run is left.
   */
  isLast?: boolean;
};

/**
 * What a turn yields: the agent's events in order, each as soon as it is there, and at last its outcome. At most one is a
 * `result`; only warnings may follow it. A last turn may have more results, of which the last counts, and ends with
 * `exited` before its outcome.
 */
export type TurnEvent =
  | AgentEvent
  /** A last turn, before the agent gets the prompt: it has done nothing until the next event is asked for. */
  | { type: "ready"; identity: ProcessIdentity }
  /** A last turn: what it has cost so far, all that is known of one whose end nobody sees. */
  | { type: "spent"; spent: Spent }
  | { type: "ended"; outcome: TurnOutcome };

/**
 * What the agent wants to know from a person. Nothing more comes of the turn until `reply` is called, and it is not silent
 * meanwhile. A second call has no effect.
 */
export type Ask = {
  /** Stays the same when the question is asked again by a process that resumes the session. */
  id: string;
  kind: "question" | "plan";
  /** Empty for a plan. */
  questions: readonly Question[];
  /** Null: it is a question, or the agent has written none. */
  plan: string | null;
  reply: (reply: Reply) => void;
};

/**
 * `defer`: the turn ends, its outcome has `deferred`, and a process that resumes the session asks again. The others are the
 * answer of a person: by question, a label, own words or several labels; of a plan, whether it is approved, with words for
 * the agent, and what takes the plan's place (null: nothing).
 */
export type Reply =
  | { kind: "defer" }
  | { kind: "answers"; answers: Readonly<Record<string, string | readonly string[]>> }
  | { kind: "approve"; feedback: string; plan: string | null }
  | { kind: "send_back"; feedback: string };

/** What a turn used and cost. */
export type Spent = Pick<TurnOutcome, "usage" | "costUsd" | "costEstimated">;

export type TurnOutcome = {
  ok: boolean;
  /** The agent got the prompt: before that it has done nothing. */
  prompted: boolean;
  /** It has ended because the reply was `defer`: the session's turn is not over. It is ok. */
  deferred: boolean;
  /** Null when ok, and when the caller ended the turn. */
  reason: FailureReason | null;
  retryable: boolean;
  /** Status with which the model's endpoint refused; null: it did not refuse. */
  apiStatus: number | null;
  /** When the usage limit that was reached resets, ISO 8601; null: unknown, or none was. */
  limitResetsAt: string | null;
  /** A sentence about the failure, with the tail of stderr; at most 10,240 bytes. Null when ok. */
  error: string | null;
  /** The agent's final text (the result), else the tail of what it said. */
  text: string;
  /** What it reports to have come of it; null: nothing. */
  report: Report | null;
  /** Null while the process runs, and when a signal ended it. */
  exitCode: number | null;
  sessionId: string | null;
  model: string | null;
  /** Of this turn alone, although the CLI reports sums. */
  numTurns: number | null;
  costUsd: number | null;
  /** The agent did not report the cost: it was reckoned from the tokens. */
  costEstimated: boolean;
  /** As the result reports it; without a result, of the calls that were told. */
  usage: Usage | null;
  durationMs: number;
};

/** The outcome of a turn whose events do not matter. */
export const outcomeOf = async (turn: AsyncIterable<TurnEvent>): Promise<TurnOutcome> => {
  for await (const event of turn) if (event.type === "ended") return event.outcome;
  throw new Error("the turn has no outcome");
};
