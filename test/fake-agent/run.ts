import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import type {
  Agent,
  AgentLaunch,
  AgentProcess,
  AgentStart,
  AgentTurn,
  TurnEvent,
  TurnOutcome,
} from "../../src/agents/agent.ts";
import { createClaudeAgent } from "../../src/agents/claude/claude.ts";
import type { TelemetryReceiver } from "../../src/agents/claude/routes.ts";
import type { ClaudeSettings } from "../../src/agents/claude/settings.ts";
import type { AgentEvent } from "../../src/contract/event.ts";
import { createRedactor } from "../../src/lib/redact.ts";
import type { ProcessIdentity } from "../../src/lib/process/identity.ts";
import { allowedOf } from "../../src/profiles/sandbox-policy.ts";
import type { Sandbox } from "../../src/sandbox/sandbox.ts";
import { findMarked } from "../processes.ts";

const fakeAgentPath = fileURLToPath(new URL("fake-agent", import.meta.url));

export type FakeRun = {
  outcome: TurnOutcome;
  events: AgentEvent[];
  jobId: string;
  identity: ProcessIdentity | null;
  /** Pids that carried the job's marker once the turn had ended. */
  left: number[];
};

export type FakeRunOptions = {
  /** An empty directory: working directory, HOME and CLAUDE_CONFIG_DIR go under it. */
  directory: string;
  settings?: Partial<ClaudeSettings>;
  launch?: Partial<AgentLaunch>;
  start?: Partial<AgentStart>;
  turn?: Partial<AgentTurn>;
  env?: NodeJS.ProcessEnv;
  /** What the service knows as secrets. */
  secrets?: string[];
  receiver?: TelemetryReceiver;
  origins?: () => readonly string[];
  sandbox?: Sandbox;
  /** What stands around the adapter. */
  wrap?: (agent: Agent) => Agent;
  /** Awaited before the agent gets its prompt. */
  onReady?: (identity: ProcessIdentity) => Promise<void>;
  onEvent?: (event: AgentEvent) => unknown;
  onStart?: (process: AgentProcess) => void;
};

/** Gives a process of the fake agent its only turn, as a job does, through the real adapter. */
export const runFake = async (prompt: string, options: FakeRunOptions): Promise<FakeRun> => {
  const {
    directory,
    settings = {},
    launch = {},
    start = {},
    turn = {},
    env = {},
    secrets = [],
    receiver,
    onReady,
    onEvent,
    onStart,
    wrap = (agent) => agent,
    ...given
  } = options;
  const claude = createClaudeAgent({
    settings: { ...fakeSettings(directory), ...settings },
    env: { PATH: process.env["PATH"], ...env },
    redact: createRedactor(secrets),
    receiver: () => receiver ?? null,
    ...given,
  });
  const agent = wrap(claude);
  const jobId = start.id ?? randomUUID();
  let identity: ProcessIdentity | null = null;
  const events: AgentEvent[] = [];
  const started = await agent.start({
    id: jobId,
    attempt: 1,
    cwd: directory,
    launch: { ...fakeLaunch(directory), ...launch },
    session: { id: randomUUID(), resumeFrom: null },
    ...start,
  });
  const said = !started.ok
    ? [{ type: "ended", outcome: started.outcome } as const]
    : begun(started.process, onStart).turn({
        content: [{ type: "text", text: prompt }],
        appendSystemPrompt: null,
        effort: null,
        timeoutSeconds: launch.timeoutSeconds ?? 60,
        isLast: true,
        signal: new AbortController().signal,
        ...turn,
      });
  const take = async (event: TurnEvent): Promise<void> => {
    if (event.type === "ended" || event.type === "spent") return;
    if (event.type === "ready") {
      ({ identity } = event);
      return await onReady?.(identity);
    }
    events.push(event);
    onEvent?.(event);
  };
  let outcome: TurnOutcome | null = null;
  for await (const event of said) {
    if (event.type === "ended") ({ outcome } = event);
    await take(event);
  }
  if (outcome === null) throw new Error("the turn has no outcome");
  const left = (await findMarked({ name: "SERVICE_JOB_ID", value: jobId })).map(({ pid }) => pid);
  return { outcome, events, jobId, identity, left };
};

const begun = (process: AgentProcess, onStart: FakeRunOptions["onStart"]): AgentProcess => {
  onStart?.(process);
  return process;
};

/** What holds for every process that has had its only turn, however it went. */
export const expectTidy = ({ outcome, events, left }: FakeRun): void => {
  expect(events.at(-1)?.type).toBe("exited");
  expect(events.filter((event) => event.type === "exited")).toHaveLength(1);
  expect(left).toEqual([]);
  expect(Buffer.byteLength(outcome.error ?? "")).toBeLessThanOrEqual(10_240);
  expect(outcome.ok).toBe(outcome.error === null);
};

export const fakeSettings = (directory: string): ClaudeSettings => ({
  agentCliBinary: fakeAgentPath,
  agentCliFirstOutputTimeout: 30,
  agentCliIdleTimeout: 30,
  agentCliResultGrace: 10,
  agentCliKillGrace: 2,
  agentHome: directory,
  agentEnv: [],
  agentOauthToken: null,
  modelAuthToken: null,
  modelApiKey: null,
  modelBaseUrl: null,
  podName: "test-pod",
  otelEnabled: false,
  otelEndpoint: null,
  otelProtocol: null,
  otelLogPrompts: false,
  otelLogToolDetails: true,
});

export const fakeLaunch = (directory: string): AgentLaunch => ({
  configDir: `${directory}/.config-of-job`,
  projectsDir: `${directory}/.config-of-job/projects`,
  args: ["--model", "sonnet", "--max-turns", "80"],
  model: "sonnet",
  settingsFile: null,
  mcpConfigFile: null,
  worktree: null,
  bypassPermissions: false,
  profile: "code",
  repoKey: "0123456789ab",
  timeoutSeconds: 60,
  maxBudgetUsd: null,
  allowed: allowedOf({ hosts: [], read: [], write: [] }, {}),
});
