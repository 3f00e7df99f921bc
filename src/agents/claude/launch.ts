import { instanceVariable, jobMarker } from "../../lib/process/marker.ts";
import { supervise, type Spawned } from "../../lib/process/supervise.ts";
import { createRedactor, type Redact } from "../../lib/redact.ts";
import type { AgentTurn } from "../agent.ts";
import { claudeArguments } from "./arguments.ts";
import { agentEnvironment } from "./environment.ts";
import type { ClaudeSettings } from "./settings.ts";

type Request = {
  settings: ClaudeSettings;
  /** The service's own environment. */
  env: NodeJS.ProcessEnv;
  turn: Pick<AgentTurn, "jobId" | "attempt" | "cwd" | "cacheDirectory" | "launch" | "session">;
};

export type PreparedLaunch = {
  /** What the operator asked for and does not get. */
  warnings: string[];
  redact: Redact;
  /** Starts the CLI. Its outputs must be listened to without waiting for anything else first. */
  spawn: () => Promise<Spawned>;
};

/** Everything that decides how the CLI is started, for a job and for a conversation alike. */
export const prepareLaunch = ({ settings, env, turn }: Request): PreparedLaunch => {
  const root = process.getuid?.() === 0;
  const { variables, refused, secrets } = agentEnvironment({ settings, env, turn, root });
  return {
    warnings: refused.map(refusal),
    redact: createRedactor(secrets),
    spawn: () =>
      supervise({
        command: settings.agentCliBinary,
        args: claudeArguments(turn),
        cwd: turn.cwd,
        env: variables,
        marker: jobMarker(turn.jobId, env[instanceVariable]),
        directories: turn.cacheDirectory === null ? [turn.cwd] : [turn.cwd, turn.cacheDirectory],
      }),
  };
};

const refusal = (name: string): string =>
  `SERVICE_AGENT_ENV lists ${name}, which the agent may not have; it was left out. Remove it from the list.`;
