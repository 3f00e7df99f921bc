import type { AgentLaunch } from "../agents/agent.ts";

/** PORT of the room: the agent that agent mode has loaded. Read anew when its files change. */
export type AgentPackage = {
  /** HUB_AGENT, or `default`. */
  name: string;
  /**
   * The agent as its files are now.
   * @throws ServiceError `invalid_profile` with a sentence that names the file, when they cannot be used
   */
  read: () => Promise<LoadedAgent>;
  /** Writes the config directory of one process, and says how to start it. */
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
  /** Removes the directories of processes whose ids begin so: what an earlier start of the instance has left. */
  discardLeft: (prefix: string) => Promise<void>;
  /** Transcript of a session: an absolute path, or null. */
  findTranscript: (sessionId: string) => Promise<string | null>;
};

export type LoadedAgent = {
  /** Changes whenever a process that was started before is not what would be started now. */
  fingerprint: string;
  /** Appended to the system prompt of every conversation (`package/system.md`); null: nothing. */
  systemPrompt: string | null;
  /** Seconds one turn may take. */
  timeoutSeconds: number;
  /** Names that requests may give as `model`: the agent's own first. */
  models: readonly string[];
  /** What the CLI is told for such a name; null as value: the agent's own model. Undefined: no such name. */
  cliModel: (name: string) => string | null | undefined;
};
