import type { AgentProcesses, ProcessStart, StartedProcess } from "../agent-process.ts";
import { appendedByArguments } from "./control.ts";
import { prepareLaunch } from "./launch.ts";
import { spawnFault } from "./outcome.ts";
import { createProcess } from "./process.ts";
import type { ClaudeSettings } from "./settings.ts";
import { warmUp } from "./warm-up.ts";

type Options = {
  settings: ClaudeSettings;
  /** The service's own environment, of which the agent gets an allow-list. */
  env: NodeJS.ProcessEnv;
};

/** Processes of Claude Code, or of a program that speaks its protocol, that take one turn after another. */
export const createClaudeProcesses = ({ settings, env }: Options): AgentProcesses => {
  warmUp();
  return { start: (request) => start(request, { settings, env }) };
};

const start = async (
  { id, cwd, launch, session }: ProcessStart,
  { settings, env }: Options,
): Promise<StartedProcess> => {
  const turn = { jobId: id, attempt: 1, cwd, cacheDirectory: null, launch, session };
  const { warnings, redact, spawn } = prepareLaunch({ settings, env, turn });
  const appended = await appendedByArguments(launch);
  const spawned = await spawn();
  if (!spawned.ok) {
    const { reason, error } = spawnFault(spawned);
    return { ok: false, reason, message: error };
  }
  const agent = spawned.process;
  return {
    ok: true,
    process: createProcess({ id, session, launch, settings, agent, redact, warnings, appended }),
  };
};
