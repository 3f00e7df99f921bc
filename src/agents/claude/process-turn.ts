import type { AgentEvent } from "../../contract/event.ts";
import type { EndedProcess, SupervisedProcess } from "../../lib/process/supervise.ts";
import type { AgentLaunch } from "../agent.ts";
import type { ProcessTurn, TurnOutcome } from "../agent-process.ts";
import type { EndCause, Ended } from "./classify.ts";
import { interruptLine } from "./control.ts";
import { watchLimits } from "./limits.ts";
import type { Observed } from "./observed.ts";
import { endWarnings } from "./outcome.ts";
import type { ClaudeSettings } from "./settings.ts";
import { ownCost, turnOutcome } from "./turn-outcome.ts";

export type BeginTurn = {
  turn: ProcessTurn;
  settings: ClaudeSettings;
  launch: AgentLaunch;
  agent: Pick<SupervisedProcess, "stdin" | "stop">;
  redact: (text: string) => string;
  /** Of this turn, growing. */
  observed: Observed;
  /** What the process had cost before, US dollars: the CLI adds up. */
  spent: number;
};

/** A turn that has been given to the CLI. */
export type TurnUnderWay = {
  /** An event came. False: the turn has its result, the event is not of it. */
  take: (event: AgentEvent) => boolean;
  /** The CLI wrote a line. */
  alive: () => void;
  /** The piece of output is told in full: hands its events on. True: the turn has ended. */
  flush: () => boolean;
  /** The process is gone. */
  exited: (ended: EndedProcess) => void;
  /** The process is being ended by the service. */
  ending: (reason: unknown) => void;
  outcome: Promise<TurnOutcome>;
};

/** From the request to stop to the TERM, and from there to the KILL. With the sweep it stays below 2 s. */
const patience = { interruptMs: 700, killSeconds: 0.5 };

/**
 * Watches over one turn. Whatever ends it early goes the same way: the CLI is asked to stop, which leaves it fit for the
 * next turn; if it gives no result it gets TERM and KILL.
 */
export const beginTurn = (begin: BeginTurn): TurnUnderWay => {
  const { turn, settings, launch, agent, redact, observed, spent } = begin;
  const began = performance.now();
  const { promise: outcome, resolve } = Promise.withResolvers<TurnOutcome>();
  let batch: AgentEvent[] = [];
  let cause: EndCause = null;
  let interruption: unknown = null;
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
    agent.stdin.write(interruptLine());
    ladder = setTimeout(() => {
      void agent.stop({ graceSeconds: patience.killSeconds });
    }, patience.interruptMs);
  };
  const limits = watchLimits(
    {
      wall: turn.timeoutSeconds,
      firstOutput: settings.agentCliFirstOutputTimeout,
      idle: settings.agentCliIdleTimeout,
      resultGrace: 0,
    },
    stop,
  );
  limits.promptGiven();
  const onAbort = (): void => stop("aborted", turn.signal.reason);
  turn.signal.addEventListener("abort", onAbort, { once: true });

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
    resolve(
      turnOutcome({
        turn,
        settings,
        launch,
        observed,
        cause,
        interruption,
        ended,
        redact,
        spent,
        durationMs,
      }),
    );
  };

  return {
    take: (event) => {
      if (answered && event.type !== "warning") return false;
      answered ||= event.type === "result";
      batch.push(event.type === "result" ? { ...event, cost_usd: ownCost(event.cost_usd, spent) } : event);
      return true;
    },
    alive: limits.event,
    flush: () => {
      if (done) return true;
      handOn();
      if (answered) finish({ exitCode: null, signal: null });
      return answered;
    },
    exited: (ended) => {
      if (done) return;
      for (const message of endWarnings({ ended, observed, cause })) {
        batch.push({ type: "warning", message });
      }
      handOn();
      finish(ended);
    },
    ending: (reason) => void because("aborted", reason),
    outcome,
  };
};
