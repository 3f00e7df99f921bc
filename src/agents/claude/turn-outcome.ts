import { cutFront } from "../../lib/tail-buffer.ts";
import type { AgentLaunch } from "../agent.ts";
import type { ProcessTurn, TurnOutcome } from "../agent-process.ts";
import { classify, type EndCause, type Ended } from "./classify.ts";
import { errorLimit, type Observed } from "./observed.ts";
import { finalText } from "./outcome.ts";
import { reasonText } from "./reason-text.ts";
import { errorText } from "./sentences.ts";
import type { ClaudeSettings } from "./settings.ts";

type EndedTurn = {
  turn: ProcessTurn;
  settings: ClaudeSettings;
  launch: AgentLaunch;
  observed: Observed;
  cause: EndCause;
  /** Why the caller ended the turn. */
  interruption: unknown;
  /** Of a process that goes on both are null. */
  ended: Ended;
  redact: (text: string) => string;
  /** What the process had cost before, US dollars. */
  spent: number;
  durationMs: number;
};

/** The outcome of a turn, whether its process goes on or not. */
export const turnOutcome = (run: EndedTurn): TurnOutcome => {
  const { turn, settings, launch, observed, cause, interruption, ended, redact, spent, durationMs } = run;
  const stderr = observed.stderr.text();
  const verdict = classify({ observed: { ...observed, stderr }, cause, ended });
  const { timeoutSeconds } = turn;
  const { profile } = launch;
  const error = (): string =>
    errorText({
      verdict,
      cause,
      ended,
      observed,
      settings,
      timeoutSeconds,
      profile,
      wording: "turn",
      interruption,
      stderr,
    });
  const { result } = observed;
  return {
    ...verdict,
    apiStatus: result?.api_status ?? null,
    error: verdict.ok ? null : cutFront(redact(error()), errorLimit),
    text: redact(finalText(observed)),
    sessionId: observed.sessionId,
    model: observed.model,
    numTurns: result?.num_turns ?? null,
    costUsd: ownCost(result?.cost_usd ?? null, spent),
    usage: result?.usage ?? null,
    durationMs,
  };
};

/** US dollars, without the noise of the subtraction. */
export const ownCost = (total: number | null, spent: number): number | null =>
  total === null ? null : Math.max(0, Number((total - spent).toFixed(10)));

/** The outcome of a turn that the agent was never told of. */
export const untoldOutcome = (reason: unknown): TurnOutcome => ({
  ok: false,
  reason: null,
  retryable: false,
  apiStatus: null,
  error: `The turn was ended by the service before the agent heard of it: ${reasonText(reason)}.`,
  text: "",
  sessionId: null,
  model: null,
  numTurns: null,
  costUsd: null,
  usage: null,
  durationMs: 0,
});
