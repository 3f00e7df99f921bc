import type { AgentEvent } from "../../contract/event.ts";
import type { EndedProcess, SupervisedProcess } from "../../lib/process/supervise.ts";
import type { Redactor } from "../../lib/redact.ts";
import type { Meter } from "../../sandbox/meter.ts";
import type { AgentProcess, AgentStart, AgentTurn, TurnEvent } from "../agent.ts";
import { approvedMode, turnInput } from "./arguments.ts";
import { createAsks } from "./asks.ts";
import { createMessages } from "./messages.ts";
import { unpromptedOutcome } from "./outcome.ts";
import type { Denials } from "./denials.ts";
import { readOutput } from "./read-output.ts";
import { createSpending } from "./spending.ts";
import type { ClaudeSettings } from "./settings.ts";
import { isWork, startTurn, type RunningTurn } from "./turn.ts";

type Options = Pick<AgentStart, "id" | "session" | "launch" | "asks" | "hears"> & {
  /** Why it does not, as a warning at the first message; null: nobody is to tell it anything. */
  cannotHear: string | null;
  /** It asks again what the transcript leaves open. */
  asksAgain: boolean;
  /** What a first turn without content says; null: nothing. */
  first: string | null;
  settings: ClaudeSettings;
  /** Version of the agent CLI, null when unknown. */
  version: string | null;
  agent: SupervisedProcess;
  redact: Redactor;
  /** Reported with the first turn. */
  warnings: readonly string[];
  /** What the arguments append to the system prompt. */
  appended: string | null;
  /** What its sandbox refuses it. */
  denials: Denials;
  sandbox: AgentProcess["sandbox"];
  /** Sees what it spends; null: nothing does. */
  meter: Meter | null;
};

/** Output between turns beyond which a process counts as broken, bytes. */
const idleOutputLimit = 1024 * 1024;

/**
 * Longest time until a process that has answered before begins the next answer: it reports this before it asks the
 * model.
 */
const beginSeconds = 10;

/** How long a process between turns may live on with its output closed. */
const closedOutputMs = 1000;

/** A running CLI. Call it right after the spawn: earlier output may be lost. */
export const createProcess = (options: Options): AgentProcess => {
  const { id, session, launch, settings, agent, redact, warnings, appended, denials } = options;
  let current: RunningTurn | null = null;
  let usable = true;
  let turns = 0;
  let spentUsd = 0;
  let idleBytes = 0;
  let unasked = false;
  let effort: AgentTurn["effort"] = null;

  const reader = readOutput({
    stdout: agent.stdout,
    stderr: agent.stderr,
    redact,
    emit: (event) => {
      const accepted = current?.accept(event) ?? false;
      unasked ||= !accepted && isWork(event);
      if (event.type === "tool_result") messages.open();
      if (event.type === "result") spentUsd = event.cost_usd ?? spentUsd;
    },
    onRequest: (line) => messages.take(line) || asks.take(line) || spent?.take(line),
    onLine: () => {
      current?.lineRead();
      asks.lineRead();
    },
    onChunk: (bytes) => {
      if (current === null) idleBytes += bytes;
      else if (current.flush()) current = null;
      if (current === null) idle();
    },
  });
  const write = (line: string): void => void (agent.stdin.writable && agent.stdin.write(line));
  const reported = () => reader.observed().facts.models;
  const spent = options.meter && createSpending({ meter: options.meter, write, reported });
  const messages = createMessages({
    write,
    transcript: session.resumeFrom,
    isAsking: () => asks.isOpen(),
    onHeard: (message) => tell({ type: "message", ...message, status: "taken" }),
  });
  const asks = createAsks({
    write,
    redact,
    approvedMode: approvedMode(launch),
    message: () => reader.observed().facts.message,
    onDefer: messages.recall,
    lastWords: () => reader.observed().lastWords.text(),
  });
  /** Unrequested output would count as the next turn's, and endless output never ends. */
  const idle = (): void => {
    if (usable && (unasked || idleBytes > idleOutputLimit)) void end();
  };

  /** The only way in which the service ends the process. */
  const end = (
    graceSeconds = settings.agentCliKillGrace,
    { keepsInput } = { keepsInput: false },
  ): Promise<EndedProcess> => {
    usable = false;
    if (!keepsInput) agent.stdin.end();
    return agent.stop({ graceSeconds });
  };
  agent.stdout.once("close", () => {
    usable = false;
    if (current?.isLast === true) return;
    const late = setTimeout(() => void end(), closedOutputMs);
    void agent.ended.then(() => clearTimeout(late));
  });
  const exited = (how: EndedProcess): void => {
    usable = false;
    messages.close();
    current?.exited(how);
    current = null;
  };
  const ended = agent.ended.then(exited);

  /** Events that do not come from its output. */
  const tell = (...events: AgentEvent[]): void => {
    if (current === null) return;
    for (const event of events) current.accept(event);
    if (current.flush()) current = null;
  };
  const tellDenied = (): void => {
    if (current !== null) tell(...denials.fresh());
  };
  denials.onFresh(tellDenied);

  const turn = (given: AgentTurn): AsyncGenerator<TurnEvent, void, void> => {
    const asked = turns === 0 ? withWords(given) : given;
    if (current !== null)
      throw new Error("A process runs one turn at a time: wait until the current one ends.");
    if (asked.signal.aborted && !asked.isLast) return unprompted(asked.signal.reason);
    if (turns > 0) reader.nextTurn();
    turns += 1;
    idleBytes = 0;
    const started = startTurn({
      turn: asked,
      settings,
      version: options.version,
      beginSeconds:
        turns === 1 ? 0 : Math.min(settings.agentCliFirstOutputTimeout || beginSeconds, beginSeconds),
      profile: launch.profile,
      agent,
      end,
      redact,
      observed: reader.observed(),
      spent: spentUsd,
      onGiven: () => {
        asks.listen({
          onAsk: asked.onAsk,
          warn: (message) => void started.accept({ type: "warning", message }),
          onWait: started.onWait,
          end: started.defer,
        });
        // Without a prompt of its own it asks again first.
        if (asked.content.length > 0 || asked.begins !== undefined) messages.open();
      },
      isWaiting: messages.isWaiting,
      onInputEnd: messages.close,
      atEnd: () => {
        asks.drop();
        return denials.atEnd();
      },
    });
    current = started;
    tellDenied();
    if (turns === 1) for (const message of warnings) started.accept({ type: "warning", message });
    if (!usable) void agent.ended.then(exited);
    if (isLost(asked)) started.lost();
    return started.events(inputOf(asked));
  };
  const withWords = (given: AgentTurn): AgentTurn =>
    given.content.length === 0 && given.begins === undefined && options.first !== null
      ? { ...given, content: [{ type: "text", text: options.first }] }
      : given;
  /** It is to go on with a question that its session does not have any more. */
  const isLost = ({ content, begins }: AgentTurn): boolean =>
    content.length === 0 && begins === undefined && !options.asksAgain;
  /** Null: it gets nothing. */
  const inputOf = (asked: AgentTurn): string | null => {
    if (!usable || isLost(asked)) return null;
    const input = turnInput({
      turn: asked,
      first: turns === 1,
      resumes: session.resumeFrom !== null,
      appended,
      effort,
      asks: options.asks,
    });
    effort = asked.effort ?? effort;
    return asked.begins === undefined ? input : input + messages.begin(asked.begins);
  };

  return {
    id,
    pid: agent.pid,
    sessionId: session.id,
    sandbox: options.sandbox,
    isIdle: () => usable && current === null,
    turns: () => turns,
    turn,
    say: async (message) => {
      if (options.hears) return await messages.say(message);
      if (options.cannotHear !== null) tell({ type: "warning", message: options.cannotHear });
      return false;
    },
    takeBack: messages.takeBack,
    ...(spent && { spending: spent.spending }),
    end: async ({ graceSeconds } = { graceSeconds: settings.agentCliKillGrace }) => {
      current?.ending("the agent's process was ended");
      await end(graceSeconds);
    },
    ended,
  };
};

const unprompted = async function* (reason: unknown): AsyncGenerator<TurnEvent, void, void> {
  yield { type: "ended", outcome: unpromptedOutcome(reason) };
};
