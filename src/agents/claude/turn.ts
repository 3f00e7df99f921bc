import type { AgentEvent } from "../../contract/event.ts";
import type { EndedProcess, SupervisedProcess } from "../../lib/process/supervise.ts";
import type { AgentTurn, TurnEvent } from "../agent.ts";
import type { EndCause, Ended } from "./classify.ts";
import { interruptLine } from "./arguments.ts";
import { watchLimits } from "./limits.ts";
import { endWarnings, ownCost, turnOutcome, type EndedTurn } from "./outcome.ts";

/** `observed`: of this turn so far; `spent`: the CLI reports sums. */
type StartTurn = Pick<EndedTurn, "settings" | "version" | "profile" | "redact" | "observed" | "spent"> & {
  turn: AgentTurn;
  agent: Pick<SupervisedProcess, "stdin" | "identity">;
  /** Ends the process. An open question fails when the input is closed, and is asked again when it is not. */
  end: (graceSeconds: number, options?: { keepsInput: boolean }) => unknown;
  /** Longest time until the CLI begins the turn, seconds; 0: no limit. */
  beginSeconds: number;
  /** It has got its prompt. */
  onGiven: () => void;
  /** Whether the CLI begins another turn by itself, with what was said meanwhile. */
  isWaiting: () => boolean;
  /** Its input has ended. */
  onInputEnd: () => void;
  /** What is told at its end. */
  atEnd: () => AgentEvent[];
};

/** From the request to stop to TERM, and from there to KILL. With the sweep it stays below 2 s. */
export const stopLimits = { interruptMs: 700, killSeconds: 0.5 };

/**
 * Supervises one turn. Every early end goes the same way: the CLI is asked to stop, which leaves it ready for the next
 * turn; if no result comes, it gets TERM and KILL. A last turn ends with its process, which is ended at once.
 */
export const startTurn = (begin: StartTurn) => {
  const { turn, settings, agent, end, observed, spent } = begin;
  const { isLast = false } = turn;
  const began = performance.now();
  const over = Promise.withResolvers<void>();
  let waiting: TurnEvent[] = [];
  let wake = (): void => {};
  let cause: EndCause = null;
  let interruption: unknown = null;
  let prompted = false;
  let answered = false;
  /** Since the last result. */
  let worked = false;
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
    if (why === "deferred") return void end(settings.agentCliKillGrace, { keepsInput: true });
    if (isLast) return void end(reason === "fence" ? 0 : settings.agentCliKillGrace);
    agent.stdin.write(interruptLine());
    ladder = setTimeout(() => end(stopLimits.killSeconds), stopLimits.interruptMs);
  };
  const limits = watchLimits(
    {
      wall: turn.timeoutSeconds,
      begin: begin.beginSeconds,
      first_output: settings.agentCliFirstOutputTimeout,
      idle: settings.agentCliIdleTimeout,
      result_grace: settings.agentCliResultGrace,
    },
    stop,
  );
  const onAbort = (): void => stop("aborted", turn.signal.reason);
  turn.signal.addEventListener("abort", onAbort, { once: true });
  if (turn.signal.aborted) onAbort();

  const give = (input: string | null): void => {
    if (input === null || cause !== null || done) return;
    agent.stdin.write(input);
    prompted = true;
    limits.promptGiven();
    begin.onGiven();
  };
  const finish = (ended: Ended): void => {
    done = true;
    waiting.push(...begin.atEnd());
    if (isLast) waiting.push({ type: "exited", exit_code: ended.exitCode, signal: ended.signal });
    limits[Symbol.dispose]();
    clearTimeout(ladder);
    turn.signal.removeEventListener("abort", onAbort);
    const durationMs = Math.round(performance.now() - began);
    const outcome = turnOutcome({ ...begin, cause, interruption, prompted, ended, durationMs });
    waiting.push({ type: "ended", outcome });
    wake();
    over.resolve();
  };

  return {
    isLast,
    /** Gives the agent the prompt (null: it has ended), and yields what comes of it. */
    events: async function* (input: string | null): AsyncGenerator<TurnEvent, void, void> {
      try {
        const identity = isLast ? await agent.identity : null;
        if (identity !== null && cause === null) yield { type: "ready", identity };
        // Without an identity it has ended, and its exit tells the rest.
        if (identity !== null || !isLast) give(input);
        for (;;) {
          const events = waiting;
          waiting = [];
          for (const event of events) yield event;
          if (waiting.length > 0) continue;
          if (done) return;
          await new Promise<void>((resolve) => (wake = resolve));
        }
      } finally {
        stop("aborted", "its caller left");
        await over.promise;
      }
    },
    /** Accepts an event. False: the turn has its result already. */
    accept: (event: AgentEvent): boolean => {
      if (answered && !isLast && event.type !== "warning") return false;
      if (event.type !== "result") {
        worked ||= isWork(event);
        waiting.push(event);
        return true;
      }
      answered = true;
      waiting.push({ ...event, cost_usd: ownCost(event.cost_usd, spent) });
      if (isLast && (observed.facts.deferred || !begin.isWaiting())) {
        limits.result(worked);
        worked = false;
        begin.onInputEnd();
        // At the end of its input the agent exits.
        agent.stdin.end();
      }
      return true;
    },
    /** The CLI wrote a line. */
    lineRead: (): void => {
      const { turnOpen, workedSinceResult } = observed.facts;
      limits.line({ begun: turnOpen, answering: workedSinceResult });
    },
    /** All events of a piece of output have come. True: the turn has ended. */
    flush: (): boolean => {
      if (answered && !isLast && !done) finish({ exitCode: null, signal: null });
      else wake();
      return done;
    },
    /** The process has exited. */
    exited: (ended: EndedProcess): void => {
      if (done) return;
      for (const message of endWarnings({ ended, observed, cause }))
        waiting.push({ type: "warning", message });
      finish(ended);
    },
    /** The service is ending the process. */
    ending: (reason: unknown): void => void because("aborted", reason),
    /** Whether it waits for a person, without a limit of silence. */
    onWait: limits.rest,
    /** Ends the process, which asks again when the session is resumed. */
    defer: (): void => stop("deferred"),
    /** The question that it was to go on with is lost. */
    lost: (): void => stop("lost"),
  };
};

export type RunningTurn = ReturnType<typeof startTurn>;

/** Whether the model said or did something. */
export const isWork = ({ type }: AgentEvent): boolean =>
  type === "text" || type === "thinking" || type === "tool_use";
