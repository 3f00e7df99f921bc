import type { AgentEvent } from "../../contract/event.ts";
import type { EndedProcess, SupervisedProcess } from "../../lib/process/supervise.ts";
import type { AgentTurn, TurnOutcome } from "../agent.ts";
import type { EndCause, Ended } from "./classify.ts";
import { interruptLine } from "./control.ts";
import { watchLimits } from "./limits.ts";
import { endWarnings, ownCost, turnOutcome } from "./outcome.ts";
import type { Observed } from "./read-output.ts";
import type { ClaudeSettings } from "./settings.ts";

type BeginTurn = {
  turn: AgentTurn;
  settings: ClaudeSettings;
  /** The profile's name. */
  profile: string;
  agent: Pick<SupervisedProcess, "stdin" | "identity">;
  /** Ends the process. */
  end: (graceSeconds: number) => unknown;
  redact: (text: string) => string;
  /** Of this turn, growing. */
  observed: Observed;
  /** What the process had cost before, US dollars: the CLI adds up. */
  spent: number;
};

export type TurnUnderWay = {
  isLast: boolean;
  /** Writes the turn to the agent, once the caller is ready for it. */
  give: (input: string) => void;
  /** An event came. False: the turn has its result, the event is not of it. */
  take: (event: AgentEvent) => boolean;
  /** The CLI wrote a line. */
  alive: () => void;
  /** The piece of output is told in full: hands its events on. True: the turn has ended. */
  flush: () => boolean;
  /** The process is gone. */
  exited: (ended: EndedProcess) => Promise<void>;
  /** The process is being ended by the service. */
  ending: (reason: unknown) => void;
  outcome: Promise<TurnOutcome>;
};

/** From the request to stop to the TERM, and from there to the KILL. With the sweep it stays below 2 s. */
const patience = { interruptMs: 700, killSeconds: 0.5 };

/**
 * Watches over one turn. Whatever ends it early goes the same way: the CLI is asked to stop, which leaves it fit for the
 * next turn; if it gives no result it gets TERM and KILL. A last turn ends with the process, so that one is ended at once.
 */
export const beginTurn = (begin: BeginTurn): TurnUnderWay => {
  const { turn, settings, agent, end, observed, spent } = begin;
  const { isLast = false } = turn;
  const began = performance.now();
  const { promise: outcome, resolve } = Promise.withResolvers<TurnOutcome>();
  let batch: AgentEvent[] = [];
  let cause: EndCause = null;
  let interruption: unknown = null;
  let given: Promise<void> | null = null;
  let prompted = false;
  let answered = false;
  let deaf = false;
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
    ladder = setTimeout(() => end(patience.killSeconds), patience.interruptMs);
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

  /** Does not wait when there is nothing to wait for: a turn of a conversation is written at once. */
  const give = async (input: string): Promise<void> => {
    try {
      const identity = turn.beforePrompt === undefined ? null : await agent.identity;
      if (identity !== null) await turn.beforePrompt?.(identity);
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
    if (deaf) return;
    try {
      turn.onEvents(events);
    } catch (error) {
      // Whatever is wrong with these events, it must not take the service and all other turns with it.
      deaf = true;
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
    give: (input) => void (given = give(input)),
    take: (event) => {
      if (answered && !isLast && event.type !== "warning") return false;
      if (event.type !== "result") {
        batch.push(event);
        return true;
      }
      answered = true;
      batch.push({ ...event, cost_usd: ownCost(event.cost_usd, spent) });
      if (isLast) {
        limits.result();
        // Without more input the agent exits.
        agent.stdin.end();
      }
      return true;
    },
    alive: limits.event,
    flush: () => {
      if (done) return true;
      handOn();
      if (answered && !isLast) finish({ exitCode: null, signal: null });
      return done;
    },
    exited: async (ended) => {
      // What the caller tells of the turn's beginning comes before its end.
      await given;
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
