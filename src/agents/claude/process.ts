import { readFile } from "node:fs/promises";
import type { AgentEvent } from "../../contract/event.ts";
import type { EndedProcess, SupervisedProcess } from "../../lib/process/supervise.ts";
import type { Redact } from "../../lib/redact.ts";
import type { AgentProcess, ProcessStart, ProcessTurn, TurnOutcome } from "../agent-process.ts";
import { turnInput, type Told } from "./control.ts";
import { beginTurn, type TurnUnderWay } from "./process-turn.ts";
import { readTurns } from "./read-output.ts";
import { untoldOutcome } from "./turn-outcome.ts";
import type { ClaudeSettings } from "./settings.ts";

type Options = Pick<ProcessStart, "id" | "session" | "launch"> & {
  settings: ClaudeSettings;
  agent: SupervisedProcess;
  redact: Redact;
  /** Told with the first turn. */
  warnings: readonly string[];
  /** What the arguments append to the system prompt. */
  appended: string | null;
};

/** Output between turns beyond which a process is not right any more, bytes. */
const idleOutputLimit = 1024 * 1024;

/** How long a process that has answered before may take to begin the next answer: it says so before it asks the model. */
const beginningSeconds = 10;

/** How long a process may live on without its output. */
const closedOutputMs = 1000;

/** A running CLI. Must be called right after the spawn: what comes before somebody listens may be lost. */
export const createProcess = (options: Options): AgentProcess => {
  const { id, session, launch, settings, agent, redact, warnings, appended } = options;
  const grace = { graceSeconds: settings.agentCliKillGrace };
  let current: TurnUnderWay | null = null;
  let usable = true;
  let turns = 0;
  let spent = 0;
  let idleBytes = 0;
  let stray = false;
  let told: Told = { model: launch.model, effort: null };

  const reader = readTurns({
    stdout: agent.stdout,
    stderr: agent.stderr,
    redact,
    emit: (event) => {
      const taken = current?.take(event) ?? false;
      stray ||= !taken && isWork(event);
      if (event.type === "result") spent = event.cost_usd ?? spent;
    },
    onLine: () => current?.alive(),
    onResult: () => {},
    onChunk: (bytes) => {
      if (current === null) idleBytes += bytes;
      else if (current.flush()) current = null;
      if (current === null) idle();
    },
  });
  /** Work that nobody asked for would be taken for the next turn's, and endless output never ends. */
  const idle = (): void => {
    if (usable && (stray || idleBytes > idleOutputLimit)) void end(grace);
  };

  const end = (how: { graceSeconds: number }): Promise<EndedProcess> => {
    usable = false;
    current?.ending("the agent's process was ended");
    agent.stdin.end();
    return agent.stop(how);
  };
  agent.stdout.once("close", () => {
    usable = false;
    const late = setTimeout(() => void agent.stop(grace), closedOutputMs);
    void agent.ended.then(() => clearTimeout(late));
  });
  const exited = (how: EndedProcess): void => {
    usable = false;
    current?.exited(how);
    current = null;
  };
  const ended = agent.ended.then(exited);

  const turn = async (asked: ProcessTurn): Promise<TurnOutcome> => {
    if (current !== null) throw new Error("A process takes one turn at a time: wait for the one under way.");
    if (asked.signal.aborted) return untoldOutcome(asked.signal.reason);
    if (turns > 0) reader.nextTurn();
    turns += 1;
    idleBytes = 0;
    const { input, told: next } = turnInput({ turn: asked, first: turns === 1, appended, told });
    const observed = reader.observed();
    const { agentCliFirstOutputTimeout: first } = settings;
    const limits = {
      ...settings,
      agentCliFirstOutputTimeout: turns === 1 ? first : Math.min(first || beginningSeconds, beginningSeconds),
    };
    const begun = beginTurn({ turn: asked, settings: limits, launch, agent, redact, observed, spent });
    current = begun;
    if (turns === 1) for (const message of warnings) begun.take({ type: "warning", message });
    if (usable) {
      told = next;
      agent.stdin.write(input);
    } else {
      void agent.ended.then(exited);
    }
    return await begun.outcome;
  };

  return {
    id,
    pid: agent.pid,
    sessionId: session.id,
    isIdle: () => usable && current === null,
    turns: () => turns,
    residentBytes: () => residentBytes(agent.pid),
    turn,
    end: async (how = grace) => {
      await end(how);
    },
    ended,
  };
};

const isWork = ({ type }: AgentEvent): boolean =>
  type === "text" || type === "thinking" || type === "tool_use";

const residentBytes = async (pid: number): Promise<number | null> => {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  const kibibytes = /^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1];
  return kibibytes === undefined ? null : Number(kibibytes) * 1024;
};
