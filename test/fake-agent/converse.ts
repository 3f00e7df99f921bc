import { randomUUID } from "node:crypto";
import { expect } from "vitest";
import type {
  AgentLaunch,
  AgentProcess,
  AgentStart,
  AgentTurn,
  TurnOutcome,
} from "../../src/agents/agent.ts";
import { createClaudeAgent } from "../../src/agents/claude/claude.ts";
import type { ClaudeSettings } from "../../src/agents/claude/settings.ts";
import type { AgentEvent } from "../../src/contract/event.ts";
import { createRedactor } from "../../src/lib/redact.ts";
import { findMarked } from "../processes.ts";
import { afterFile } from "../cleanup.ts";
import { fakeLaunch, fakeSettings } from "./run.ts";

type ConverseOptions = {
  /** Working directory, HOME and CLAUDE_CONFIG_DIR go under it. */
  directory: string;
  settings?: Partial<ClaudeSettings>;
  launch?: Partial<AgentLaunch>;
  env?: NodeJS.ProcessEnv;
  /** What the service knows as secrets. */
  secrets?: string[];
  session?: AgentStart["session"];
};

export type Said = { outcome: TurnOutcome; events: AgentEvent[] };

export type Conversation = {
  directory: string;
  process: AgentProcess;
  /** Runs one turn; `onEvent` is called besides the collecting. */
  say: (
    text: string,
    turn?: Partial<AgentTurn> & { onEvent?: (event: AgentEvent) => unknown },
  ) => Promise<Said>;
  /** Pids that carry the process's marker. */
  left: () => Promise<number[]>;
};

/** Tries to start a process of the fake agent, or of `settings.agentCliBinary`, through the real adapter. */
export const startProcess = async (options: ConverseOptions) => {
  const { directory, settings, launch, env, secrets = [], session } = options;
  const agent = createClaudeAgent({
    settings: { ...fakeSettings(directory), ...settings },
    env: { PATH: process.env["PATH"], ...env },
    redact: createRedactor(secrets),
  });
  const id = randomUUID();
  const started = await agent.start({
    id,
    attempt: 1,
    cwd: directory,
    launch: { ...fakeLaunch(directory), ...launch },
    session: session ?? { id: randomUUID(), resumeFrom: null },
  });
  if (started.ok) afterFile(() => started.process.end({ graceSeconds: 0 }));
  return started;
};

/** A process that must start; it is ended after the test file. */
export const converse = async (options: ConverseOptions): Promise<Conversation> => {
  const started = await startProcess(options);
  expect(started).toMatchObject({ ok: true });
  const { process: agent } = started as Extract<typeof started, { ok: true }>;
  return {
    directory: options.directory,
    process: agent,
    left: async () => (await findMarked({ name: "SERVICE_JOB_ID", value: agent.id })).map(({ pid }) => pid),
    say: async (text, { onEvent, ...turn } = {}) => {
      const events: AgentEvent[] = [];
      const said = agent.turn({
        content: [{ type: "text", text }],
        appendSystemPrompt: null,
        effort: null,
        timeoutSeconds: 60,
        signal: new AbortController().signal,
        ...turn,
      });
      for await (const event of said) {
        if (event.type === "ended") return { outcome: event.outcome, events };
        if (event.type === "ready" || event.type === "spent") continue;
        events.push(event);
        onEvent?.(event);
      }
      throw new Error("the turn has no outcome");
    },
  };
};

/** What was said, piece by piece. */
export const textOf = (events: readonly AgentEvent[]): string =>
  events.flatMap((event) => (event.type === "text" ? [event.text] : [])).join("");
