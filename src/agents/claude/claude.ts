import { instanceVariable, jobMarker } from "../../lib/process/marker.ts";
import { supervise } from "../../lib/process/supervise.ts";
import { createRedactor } from "../../lib/redact.ts";
import type { Agent, AgentStart, StartedAgent } from "../agent.ts";
import { claudeArguments } from "./arguments.ts";
import { appendedByArguments } from "./control.ts";
import { createDecoder } from "./decode.ts";
import { agentEnvironment } from "./environment.ts";
import { unstartedOutcome } from "./outcome.ts";
import { createProcess } from "./process.ts";
import type { ClaudeSettings } from "./settings.ts";

type Options = {
  settings: ClaudeSettings;
  /** The service's own environment, of which the agent gets an allow-list. */
  env: NodeJS.ProcessEnv;
};

/** The agent that runs Claude Code, or a program that speaks its protocol. */
export const createClaudeAgent = (options: Options): Agent => {
  warmUp();
  return { start: (request) => start(request, options) };
};

const start = async (request: AgentStart, { settings, env }: Options): Promise<StartedAgent> => {
  const { id, cwd, launch, session } = request;
  const root = process.getuid?.() === 0;
  const { variables, refused, secrets } = agentEnvironment({ settings, env, start: request, root });
  const appended = await appendedByArguments(launch);
  const spawned = await supervise({
    command: settings.agentCliBinary,
    args: claudeArguments(request),
    cwd,
    env: variables,
    marker: jobMarker(id, env[instanceVariable]),
    directories: [cwd],
  });
  if (!spawned.ok) return { ok: false, outcome: unstartedOutcome(spawned) };
  const agent = spawned.process;
  const redact = createRedactor(secrets);
  const warnings = refused.map(refusal);
  return {
    ok: true,
    process: createProcess({ id, session, launch, settings, agent, redact, warnings, appended }),
  };
};

const refusal = (name: string): string =>
  `SERVICE_AGENT_ENV lists ${name}, which the agent may not have; it was left out. Remove it from the list.`;

/**
 * Reads a line of each kind once: the first one costs milliseconds, since schemas are compiled when they are first used, and
 * that should not be in somebody's first answer.
 */
const warmUp = (): void => {
  const { decode } = createDecoder();
  for (const line of lines) decode(JSON.stringify(line));
};

const delta = { type: "text_delta", text: "x" };

const lines = [
  { type: "system", subtype: "init", session_id: "" },
  { type: "stream_event", event: { type: "content_block_delta", index: 0, delta } },
  { type: "assistant", message: { content: [{ type: "tool_use", id: "", name: "", input: {} }] } },
  { type: "user", message: { content: [{ type: "tool_result", tool_use_id: "", content: "" }] } },
  { type: "result", subtype: "success" },
];
