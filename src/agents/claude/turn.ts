import type { AgentEvent } from "../../contract/event.ts";
import type { EndedProcess, SupervisedProcess } from "../../lib/process/supervise.ts";
import type { AgentTurn, TurnOutcome } from "../agent.ts";
import type { EndCause, Ended } from "./classify.ts";
import { interruptLine } from "./arguments.ts";
import { watchLimits } from "./limits.ts";
import { endWarnings, ownCost, turnOutcome } from "./outcome.ts";
import type { Observed } from "./read-output.ts";
import type { ClaudeSettings } from "./settings.ts";

type StartTurn = {
  turn: AgentTurn;
  settings: ClaudeSettings;
  /** The profile's name. */
  profile: string;
  agent: Pick<SupervisedProcess, "stdin" | "identity">;
  /** Ends the process. */
  end: (graceSeconds: number) => unknown;
  redact: (text: string) => string;
  /** Facts of this turn so far. */
  observed: Observed;
  /** Earlier cost of the process, US dollars: the CLI reports sums. */
  spent: number;
};

export type RunningTurn = {
  isLast: boolean;
  /** Writes the prompt to the agent, once the caller is ready. */
  write: (input: string) => void;
  /** Accepts an event. False: the turn has its result already. */
  accept: (event: AgentEvent) => boolean;
  /** The CLI wrote a line. */
  lineRead: () => void;
  /** Passes on the events of a piece of output. True: the turn has ended. */
  flush: () => boolean;
  /** The process has exited. */
  exited: (ended: EndedProcess) => Promise<void>;
  /** The service is ending the process. */
  ending: (reason: unknown) => void;
  outcome: Promise<TurnOutcome>;
};

/** From the request to stop to TERM, and from there to KILL. With the sweep it stays below 2 s. */
const stopLimits = { interruptMs: 700, killSeconds: 0.5 };

/**
 * Supervises one turn. Every early end goes the same way: the CLI is asked to stop, which leaves it ready for the next
 * turn; if no result comes, it gets TERM and KILL. A last turn ends with its process, which is ended at once.
 */
export const startTurn = (begin: StartTurn): RunningTurn => {
  const { turn, settings, agent, end, observed, spent } = begin;
  const { isLast = false } = turn;
  const began = performance.now();
  const { promise: outcome, resolve } = Promise.withResolvers<TurnOutcome>();
  let batch: AgentEvent[] = [];
  let cause: EndCause = null;
  let interruption: unknown = null;
  let written: Promise<void> | null = null;
  let prompted = false;
  let answered = false;
  /** Since the last result. */
  let worked = false;
  let isMuted = false;
  let done = false;
  let ladder: NodeJS.Timeout | undefined;

  const because = (why: EndCause, reason: unknown): boolean => {
    if (cause !== null || done) return false;
    cause = why;
    interruption = reason;
    return true;
  };
  const stop = (why: EndCause, reason: unknown = null): void => {
    if (!because(why, reason)) return;
    if (isLast) return void end(reason === "fence" ? 0 : settings.agentCliKillGrace);
    agent.stdin.write(interruptLine());
    ladder = setTimeout(() => end(stopLimits.killSeconds), stopLimits.interruptMs);
  };
  const limits = watchLimits(
    {
      wall: turn.timeoutSeconds,
      firstOutput: settings.agentCliFirstOutputTimeout,
      idle: settings.agentCliIdleTimeout,
      resultGrace: settings.agentCliResultGrace,
    },
    stop,
  );
  const onAbort = (): void => stop("aborted", turn.signal.reason);
  turn.signal.addEventListener("abort", onAbort, { once: true });
  if (turn.signal.aborted) onAbort();

  /** Writes at once when there is nothing to wait for, as in a conversation. */
  const writeWhenReady = async (input: string): Promise<void> => {
    try {
      if (turn.beforePrompt !== undefined) {
        const identity = await agent.identity;
        // It has ended: its exit tells the rest.
        if (identity === null) return;
        await turn.beforePrompt(identity);
      }
      if (cause !== null || done) return;
      agent.stdin.write(input);
      prompted = true;
      limits.promptGiven();
    } catch (error) {
      stop("not_recorded", error);
    }
  };
  const handOn = (): void => {
    if (batch.length === 0) return;
    const events = batch;
    batch = [];
    if (isMuted) return;
    try {
      turn.onEvents(events);
    } catch (error) {
      // A faulty event handler must not end the service and all other turns.
      isMuted = true;
      stop("not_recorded", error);
    }
  };
  const finish = (ended: Ended): void => {
    done = true;
    limits[Symbol.dispose]();
    clearTimeout(ladder);
    turn.signal.removeEventListener("abort", onAbort);
    const durationMs = Math.round(performance.now() - began);
    resolve(turnOutcome({ ...begin, cause, interruption, prompted, ended, durationMs }));
  };

  return {
    isLast,
    write: (input) => void (written = writeWhenReady(input)),
    accept: (event) => {
      if (answered && !isLast && event.type !== "warning") return false;
      if (event.type !== "result") {
        worked ||= isWork(event);
        batch.push(event);
        return true;
      }
      answered = true;
      batch.push({ ...event, cost_usd: ownCost(event.cost_usd, spent) });
      if (isLast) {
        limits.result(worked);
        worked = false;
        // At the end of its input the agent exits.
        agent.stdin.end();
      }
      return true;
    },
    lineRead: limits.event,
    flush: () => {
      if (done) return true;
      handOn();
      if (answered && !isLast) finish({ exitCode: null, signal: null });
      return done;
    },
    exited: async (ended) => {
      // Events of the turn's beginning come before its end.
      await written;
      if (done) return;
      for (const message of endWarnings({ ended, observed, cause })) {
        batch.push({ type: "warning", message });
      }
      if (isLast) batch.push({ type: "exited", exit_code: ended.exitCode, signal: ended.signal });
      handOn();
      finish(ended);
    },
    ending: (reason) => void because("aborted", reason),
    outcome,
  };
};

/** Whether the model said or did something. */
export const isWork = ({ type }: AgentEvent): boolean =>
  type === "text" || type === "thinking" || type === "tool_use";
