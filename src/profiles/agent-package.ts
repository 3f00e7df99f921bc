import type { AgentLaunch } from "../agents/agent.ts";

/** PORT. The agent that agent mode has loaded. Read again when its files change. */
export type AgentPackage = {
  /** HUB_AGENT, or `default`. */
  name: string;
  /** What usage and budgets book its turns under: its name; of the agent `default` the profile whose settings it has. */
  profile: string;
  /**
   * The agent as its files are now.
   * @throws ServiceError `invalid_profile` with a sentence that names the unusable file
   */
  read: () => Promise<LoadedAgent>;
  /** Writes the config directory of one process, and returns how to start it. */
  materialise: (request: {
    /** Unique to the process; names its directory. */
    processId: string;
    cwd: string;
    /** In the CLI's terms; null: the agent's own. */
    model: string | null;
    maxTurns: number | null;
    disabledMcpServers: readonly string[];
  }) => Promise<AgentLaunch>;
  /** Removes that directory; a missing one is ignored. */
  discard: (processId: string) => Promise<void>;
  /** Removes the directories of processes whose ids have this prefix: those of an earlier start of the instance. */
  discardEarlier: (prefix: string) => Promise<void>;
  /** Transcript of a session that began in a directory: an absolute path, or null. */
  findTranscript: (sessionId: string, cwd: string) => Promise<string | null>;
  /** Notes beside the transcripts that a session is a conversation's. Never rejects. */
  noteSession: (sessionId: string) => Promise<void>;
};

export type LoadedAgent = {
  /** Changes whenever a new process would differ from one started before. */
  fingerprint: string;
  /** Appended to the system prompt of every conversation (`package/system.md`); null: nothing. */
  systemPrompt: string | null;
  /** Longest turn, seconds. */
  timeoutSeconds: number;
  /** USD that its turns may cost in a day; null: no limit of its own. */
  budgetDayUsd: number | null;
  /** Values of `model` in requests: the agent's own first. */
  models: readonly string[];
  /** The CLI's model for such a name; null: the agent's own model. Undefined: no such name. */
  cliModel: (name: string) => string | null | undefined;
};
